"""Images of two domains: digits at hand, and folders of the user's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from breakeven.errors import UserError
from breakeven.workloads import data, pairs

PIL = pytest.importorskip("PIL.Image")


def picture(path: Path, grey: int, size: tuple[int, int] = (130, 140)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.fromarray(np.full((*size, 3), grey, np.uint8)).save(path)


def test_two_digits_are_two_domains() -> None:
    pytest.importorskip("sklearn")
    made, digits = data.load("digits-3-8", "train"), data.load("digits", "train")
    assert made.images.shape == (289, 3, 128, 128) and np.bincount(made.labels).tolist() == [149, 140]
    threes = digits.images[digits.labels == 3]
    np.testing.assert_array_equal(made.images[made.labels == 0][:, :, ::4, ::4], threes)


def test_two_folders_are_prepared_and_named_by_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BREAKEVEN_DATA", str(tmp_path))
    assert data.missing("pairs") and data.entry("pairs").identity == "sha256:None"
    for index in range(6):
        picture(tmp_path / "pairs" / "A" / f"{index}.png", 10 + index)
        picture(tmp_path / "pairs" / "B" / f"{index}.png", 200 + index)
    known = data.entry("pairs")
    assert (known.n_train, known.n_test, data.missing("pairs")) == (8, 4, None)
    train, test = data.load("pairs", "train"), data.load("pairs", "test")
    assert train.images.shape == (8, 3, 128, 128) and train.labels.tolist() == [0] * 4 + [1] * 4
    greys = {int(image.min()) for image in (*train.images, *test.images)}
    assert greys == {*range(10, 16), *range(200, 206)}  # each image once, in one split
    picture(tmp_path / "pairs" / "A" / "0.png", 99)
    assert data.entry("pairs").identity != known.identity


def test_the_layout_of_horse2zebra_is_taken_as_it_is(tmp_path: Path) -> None:
    for name, count in {"trainA": 3, "trainB": 2, "testA": 1, "testB": 1}.items():
        for index in range(count):
            picture(tmp_path / name / f"{index}.jpg", 50)
    found = pairs.files(tmp_path)
    assert found is not None
    assert {split: tuple(map(len, domains)) for split, domains in found.items()} == {
        "train": (3, 2),
        "test": (1, 1),
    }


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    picture(tmp_path / "A" / "0.png", 1)
    (tmp_path / "B").mkdir()
    with pytest.raises(UserError, match="too few images"):
        pairs.files(tmp_path)
