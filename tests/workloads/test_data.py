"""Data sets: catalog, preparation, verification, and what is said where one is missing."""

from __future__ import annotations

import dataclasses
import gzip
import io
import struct
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from breakeven.errors import UserError
from breakeven.workloads import data, fetch, photos, prepare
from breakeven.workloads.data import DATA, entry, load
from breakeven.workloads.splits import MOVED, Split


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data directory; the system's folder and the home directory are out of sight."""
    monkeypatch.setenv("BREAKEVEN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(fetch, "SYSTEM_DATA", tmp_path / "system")
    return tmp_path / "data"


def write_idx(path: Path, values: np.ndarray) -> None:  # type: ignore[type-arg]
    header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    content = header + values.astype(np.uint8).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_fashion(folder: Path, n: int = 6, suffix: str = ".gz") -> np.ndarray:  # type: ignore[type-arg]
    images = np.arange(n * 28 * 28).astype(np.uint8).reshape(n, 28, 28)
    for stem in ("train", "t10k"):
        write_idx(folder / f"{stem}-images-idx3-ubyte{suffix}", images)
        write_idx(folder / f"{stem}-labels-idx1-ubyte{suffix}", np.arange(n) % 10)
    return images


def small(name: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces a catalog entry by one of n images of unknown content."""
    entry = dataclasses.replace(DATA[name], n_train=n, n_test=n, split_hashes=None)
    monkeypatch.setitem(DATA, name, entry)


@pytest.mark.parametrize("name", ["digits", "synthetic"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_offline_sets_are_what_the_catalog_says(name: str, split: str) -> None:
    got, known = load(name, split), DATA[name]
    n = known.n_train if split == "train" else known.n_test
    assert got.images.shape == (n, 3, 32, 32) and got.images.dtype == np.uint8
    assert got.labels.shape == (n,) and got.labels.dtype == np.int64
    assert set(np.unique(got.labels)) == set(range(known.classes))
    assert known.split_hashes and got.content_hash == known.split_hashes[split == "test"]
    if split == "train":
        for channel in range(3):
            # A histogram: exact, and without a floating-point copy of the images.
            counts = np.bincount(got.images[:, channel].ravel(), minlength=256)
            values = np.arange(256) / 255
            mean = np.average(values, weights=counts)
            std = np.average((values - mean) ** 2, weights=counts) ** 0.5
            assert known.mean[channel] == pytest.approx(mean, abs=6e-5)
            assert known.std[channel] == pytest.approx(std, abs=6e-5)


def test_synthetic_has_no_zero_and_no_accuracy() -> None:
    assert load("synthetic", "test").images.min() == 1
    assert not DATA["synthetic"].labelled


def test_photos_are_crops_of_the_package_s_pictures() -> None:
    if reason := data.missing("photos"):
        pytest.skip(reason)
    train, test = load("photos", "train"), load("photos", "test")
    assert train.images.shape == (256, 3, 224, 224) and test.images.shape == (512, 3, 224, 224)
    assert not DATA["photos"].labelled and DATA["photos"].shape == (3, 224, 224)
    assert len({image.tobytes() for image in (*train.images, *test.images)}) == 768
    # Neither empty nor flat: a realistic range.
    assert min(image.std() for image in train.images) > 20


def test_a_photo_of_the_same_size_is_cut_and_not_changed() -> None:
    pixels = np.arange(3 * 224 * 224).astype(np.uint8).reshape(3, 224, 224)
    assert np.array_equal(photos.resized(pixels), pixels)


def test_a_larger_photo_is_scaled_bilinearly() -> None:
    """A ramp stays the same ramp: at the centre of each output pixel, to the rounding of its weight."""
    ramp = np.broadcast_to(np.arange(0, 250)[None, None], (3, 250, 250)).astype(np.uint8)
    scaled = photos.resized(ramp)
    expected = (np.arange(224) + 0.5) * 250 / 224 - 0.5
    assert np.abs(scaled[1, 17] - expected).max() <= 0.51
    assert (scaled == scaled[0, 0]).all()


def test_digits_are_the_package_s() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    data_set, labels = datasets.load_digits(return_X_y=True)
    train, test = load("digits", "train"), load("digits", "test")
    both = np.concatenate([train.images, test.images])
    assert np.array_equal(np.sort(np.concatenate([train.labels, test.labels])), np.sort(labels))
    assert (both[:, 0] == both[:, 2]).all() and (both[:, 0, ::4, ::4] == both[:, 0, 3::4, 3::4]).all()
    rounded = np.floor(data_set.sum(axis=0) * 255 / 16)
    assert both[:, 0, ::4, ::4].reshape(-1, 64).sum(axis=0) == pytest.approx(rounded, abs=len(labels) / 2)


def test_fashion_mnist_where_it_is_installed() -> None:
    if reason := data.missing("fashion-mnist"):
        pytest.skip(reason)
    assert load("fashion-mnist", "test").images.shape == (10_000, 3, 32, 32)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_fashion_mnist_is_padded_to_32(suffix: str, nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = write_fashion(nowhere / "fashion-mnist", suffix=suffix)
    small("fashion-mnist", 6, monkeypatch)
    got = load("fashion-mnist", "train")
    assert got.images.shape == (6, 3, 32, 32) and got.labels.tolist() == [0, 1, 2, 3, 4, 5]
    for channel in range(3):
        assert np.array_equal(got.images[:, channel, 2:30, 2:30], images)
    assert got.images.sum(dtype=np.int64) == 3 * images.sum(dtype=np.int64)


def test_a_given_root_is_the_only_place(
    nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fashion(nowhere / "fashion-mnist")
    write_fashion(tmp_path / "mine")
    small("fashion-mnist", 6, monkeypatch)
    assert len(load("fashion-mnist", "test", root=tmp_path / "mine").images) == 6
    with pytest.raises(UserError, match=f"not here in {tmp_path / 'typo'}"):
        load("fashion-mnist", "test", root=tmp_path / "typo")


def test_debians_folder_is_searched(nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fashion(tmp_path / "system" / "fashion-mnist")
    small("fashion-mnist", 6, monkeypatch)
    assert len(load("fashion-mnist", "train").images) == 6
    assert data.missing("fashion-mnist") is None


def test_other_content_than_the_catalogs_is_refused(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fashion(nowhere / "fashion-mnist")
    with pytest.raises(UserError, match="has 6 images, not 60000"):
        load("fashion-mnist", "train")
    entry = dataclasses.replace(DATA["fashion-mnist"], n_train=6)
    monkeypatch.setitem(DATA, "fashion-mnist", entry)
    with pytest.raises(UserError, match="is not version"):
        load("fashion-mnist", "train")


@pytest.mark.parametrize("name", ["fashion-mnist", "cifar10"])
def test_a_missing_set_names_every_way_to_get_it(name: str, nowhere: Path) -> None:
    with pytest.raises(UserError) as caught:
        load(name, "train")
    message = str(caught.value)
    assert all(way in message for way in DATA[name].how_to_get)
    assert message == data.missing(name) and "\n" not in message
    assert not nowhere.exists()  # nothing was downloaded, nor a folder made


def test_download_only_when_asked(nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fashion(tmp_path / "mirror")
    small("fashion-mnist", 6, monkeypatch)
    monkeypatch.setattr(prepare, "FASHION_URL", f"{(tmp_path / 'mirror').as_uri()}/")
    assert len(load("fashion-mnist", "train", download=True).images) == 6
    assert sorted(file.name for file in (nowhere / "fashion-mnist").iterdir()) == [
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
    ]


def test_a_failed_download_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "data" / "file"
    with pytest.raises(UserError, match="can't download"):
        fetch.download((tmp_path / "absent").as_uri(), target)
    assert not any(target.parent.iterdir())


def test_a_lost_connection_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Response(io.BytesIO):
        headers: ClassVar = {"Content-Length": "10"}

    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: Response(b"short"))
    with pytest.raises(UserError, match="after 5 of 10 bytes"):
        fetch.download("https://example.org/file", tmp_path / "file")
    assert not any(tmp_path.iterdir())


def test_unknown_names() -> None:
    with pytest.raises(UserError, match="fashion-mnist"):
        load("fashion", "train")
    with pytest.raises(UserError, match="use train or test"):
        load("digits", "validation")


def test_the_hash_sees_labels_and_shape() -> None:
    images, labels = np.zeros((2, 3, 4, 4), np.uint8), np.zeros(2, np.int64)
    hashes = {
        data.content_hash(images, labels),
        data.content_hash(images, labels + 1),
        data.content_hash(images + np.uint8(1), labels),
        data.content_hash(images.reshape(2, 3, 2, 8), labels),
    }
    assert len(hashes) == 4


def test_identities_need_no_data() -> None:
    identities = {name: entry.identity for name, entry in DATA.items()}
    assert identities["cifar10"] == "md5:c58f30108f718f92721af3b95e74349a"
    assert all(identities[name].startswith("sha256:") for name in ("digits", "fashion-mnist", "synthetic"))
    assert len(set(identities.values())) == len(DATA)


def test_moved_pixels_break_ties_and_change_nothing_else() -> None:
    split = Split(data=load("digits", "train"), known=entry("digits"), seed=0, augment=False)
    chosen, untied = split.order(0)[:8], split.untied(8)
    pixels, moved = split.data.images[chosen], untied.data.images
    assert moved.dtype == np.uint8 and np.array_equal(split.data.labels[chosen], untied.data.labels)
    apart = np.abs(moved.astype(int) - pixels)
    assert apart.max() == MOVED - 1 and np.array_equal(moved, split.untied(8).data.images)

    def ties(of: NDArray[np.uint8]) -> int:
        windows = of.reshape(8, 3, 16, 2, 16, 2).transpose(0, 1, 2, 4, 3, 5).reshape(-1, 4)
        top = np.sort(windows, axis=1)
        return int((top[:, -1] == top[:, -2]).sum())

    assert ties(pixels) == 8 * 3 * 16 * 16 and ties(moved) < 0.05 * 8 * 3 * 16 * 16


def test_draws_are_of_samples_in_turn_and_begin_again() -> None:
    split = Split(data=load("digits", "train"), known=entry("digits"), seed=0, augment=False)
    order = split.order(0)
    second, long = split.untied(8, 1), split.untied(split.n + 5)
    assert np.array_equal(second.data.labels, split.data.labels[order[8:16]])
    assert long.n == split.n + 5 and np.array_equal(long.data.labels[split.n :], split.data.labels[order[:5]])
    assert not np.array_equal(long.data.images[split.n :], long.data.images[:5])  # moved anew
