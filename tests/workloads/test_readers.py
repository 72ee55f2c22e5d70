"""The file readers: IDX and CIFAR's pickles, sound, damaged and hostile."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from breakeven.errors import UserError
from breakeven.workloads import cifar, fetch
from breakeven.workloads.cifar import find_cifar10, read_batch, read_cifar10
from breakeven.workloads.data import DATA, load
from breakeven.workloads.idx import read_idx

ROWS = 4  # images in each batch of the archive that the tests write


def idx_bytes(values: Any) -> bytes:
    header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + bytes(values.tobytes())


@given(values=arrays(np.uint8, array_shapes(max_dims=4, max_side=5)), packed=st.booleans())
def test_idx_round_trip(tmp_path_factory: pytest.TempPathFactory, values: Any, packed: bool) -> None:
    path = tmp_path_factory.mktemp("idx") / ("a.gz" if packed else "a")
    path.write_bytes(gzip.compress(idx_bytes(values)) if packed else idx_bytes(values))
    assert np.array_equal(read_idx(path, values.ndim), values)


IDX = idx_bytes(np.ones((3, 2), np.uint8))


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (IDX[:-1], "plain", "truncated"),
        (IDX + b"x", "plain", "too long"),
        (IDX[:6], "plain", "truncated"),
        (b"", "plain", "wrong magic"),
        (b"\0\0\x0d\x02" + IDX[4:], "plain", "wrong magic"),
        (idx_bytes(np.ones(3, np.uint8)), "plain", "wrong magic"),
        (gzip.compress(IDX)[:-9], "packed.gz", "truncated or damaged"),
        (IDX, "packed.gz", "truncated or damaged"),
    ],
)
def test_a_damaged_idx_file_is_named(tmp_path: Path, content: bytes, name: str, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=said) as caught:
        read_idx(path, 2)
    assert str(path) in str(caught.value)


def test_an_unreadable_idx_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't read"):
        read_idx(tmp_path / "absent", 1)


def batch(seed: int, **changes: Any) -> dict[bytes, Any]:
    pixels = np.random.default_rng(seed).integers(0, 256, (ROWS, 3072), dtype=np.uint8)
    made = {
        b"batch_label": b"one of six",
        b"labels": [0, 9, 3, seed],
        b"data": pixels,
        b"filenames": [b"a.png"],
    }
    return made | {key.encode(): value for key, value in changes.items()}


def write_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[bytes, Any]]:
    """Six small batches in the real layout; the published checksums become theirs."""
    folder.mkdir(parents=True)
    batches = [batch(seed) for seed in range(6)]
    md5s: dict[str, dict[str, str]] = {"train": {}, "test": {}}
    for index, content in enumerate(batches):
        name = f"data_batch_{index + 1}" if index < 5 else "test_batch"
        raw = pickle.dumps(content, protocol=2)
        (folder / name).write_bytes(raw)
        md5s["train" if index < 5 else "test"][name] = hashlib.md5(raw).hexdigest()
    monkeypatch.setattr(cifar, "BATCHES", md5s)
    return batches


def write_archive(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[bytes, Any]]:
    batches = write_folder(tmp_path / "made" / cifar.FOLDER, monkeypatch)
    place.mkdir(parents=True, exist_ok=True)
    with tarfile.open(place / cifar.ARCHIVE, "w:gz") as tar:
        tar.add(tmp_path / "made" / cifar.FOLDER, arcname=cifar.FOLDER)
    md5 = hashlib.md5((place / cifar.ARCHIVE).read_bytes()).hexdigest()
    monkeypatch.setattr(cifar, "ARCHIVE_MD5", md5)
    return batches


def test_archive_and_folder_hold_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = write_archive(tmp_path / "data", tmp_path, monkeypatch)
    archive, folder = find_cifar10(tmp_path / "data"), find_cifar10(tmp_path / "made")
    assert archive == tmp_path / "data" / cifar.ARCHIVE and find_cifar10(archive) == archive
    assert folder == tmp_path / "made" / cifar.FOLDER and find_cifar10(folder) == folder
    assert find_cifar10(tmp_path) is None
    for split, part in (("train", batches[:5]), ("test", batches[5:])):
        for source in (archive, folder):
            images, labels = read_cifar10(source, split)
            assert images.shape == (len(part) * ROWS, 3, 32, 32) and images.dtype == np.uint8
            assert np.array_equal(images.reshape(-1, 3072), np.concatenate([b[b"data"] for b in part]))
            assert labels.dtype == np.int64 and labels.tolist() == [n for b in part for n in b[b"labels"]]


def test_cifar10_loads_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    write_archive(tmp_path / "data" / "cifar10", tmp_path, monkeypatch)
    monkeypatch.setenv("BREAKEVEN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(fetch, "SYSTEM_DATA", tmp_path / "system")
    with pytest.raises(UserError, match="20 images, not 50000"):
        load("cifar10", "train")
    monkeypatch.setitem(DATA, "cifar10", dataclasses.replace(DATA["cifar10"], n_train=5 * ROWS, n_test=ROWS))
    assert len(load("cifar10", "train").images) == 5 * ROWS
    assert len(load("cifar10", "test", root=tmp_path / "made").images) == ROWS
    archive = tmp_path / "data" / "cifar10" / cifar.ARCHIVE
    assert len(load("cifar10", "test", root=archive).images) == ROWS


def test_a_changed_archive_or_batch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_archive(tmp_path, tmp_path, monkeypatch)
    with (tmp_path / cifar.ARCHIVE).open("ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match="not the published CIFAR-10"):
        read_cifar10(tmp_path / cifar.ARCHIVE, "test")
    folder = tmp_path / "made" / cifar.FOLDER
    (folder / "test_batch").write_bytes(pickle.dumps(batch(7), protocol=2))
    with pytest.raises(UserError, match="not the published CIFAR-10"):
        read_cifar10(folder, "test")
    (folder / "data_batch_2").unlink()
    with pytest.raises(UserError, match="data_batch_2"):
        read_cifar10(folder, "train")


def test_an_archive_without_batches_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / cifar.ARCHIVE
    with tarfile.open(path, "w:gz"):
        pass
    monkeypatch.setattr(cifar, "ARCHIVE_MD5", hashlib.md5(path.read_bytes()).hexdigest())
    with pytest.raises(UserError, match="lacks test_batch"):
        read_cifar10(path, "test")
    path.write_bytes(b"no archive")
    monkeypatch.setattr(cifar, "ARCHIVE_MD5", hashlib.md5(path.read_bytes()).hexdigest())
    with pytest.raises(UserError, match="can't read"):
        read_cifar10(path, "test")


def test_a_pickle_as_python_2_wrote_it() -> None:
    """The real files' opcodes: byte strings (U, T), numpy.core, dtype 'u1' with integers for its flags."""
    pixels = np.arange(2 * 3072, dtype=np.uint32).astype(np.uint8)
    raw = (
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03"
        b"U\x06labelsq\x04]q\x05(K\x06K\x09e"
        b"U\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09"
        b"(K\x01K\x02M\x00\x0c\x86cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + struct.pack("<i", 2 * 3072)
    ) + (pixels.tobytes() + b"tbu.")
    images, labels = read_batch(raw, "here")
    assert np.array_equal(images.reshape(-1), pixels) and labels.tolist() == [6, 9]


class Evil:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("function", [os.mkdir, eval, getattr, np.load, __import__])
def test_a_hostile_pickle_runs_nothing(
    protocol: int, function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    raw = pickle.dumps(batch(0) | {b"extra": Evil(function, "made")}, protocol=protocol)
    with pytest.raises(UserError, match="which no batch needs"):
        read_batch(raw, "here")
    assert not (tmp_path / "made").exists()


def test_no_codec_but_latin1() -> None:
    import codecs

    raw = pickle.dumps(Evil(codecs.encode, "a", "rot13"), protocol=2)
    with pytest.raises(UserError, match="rot13"):
        read_batch(raw, "here")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labels": [0, 1, 2]}, "one label"),
        ({"labels": [0, 1, 2, 10]}, "one label"),
        ({"labels": [0, 1, 2, -1]}, "one label"),
        ({"labels": [0, 1, 2, "3"]}, "one label"),
        ({"labels": (0, 1, 2, 3)}, "one label"),
        ({"data": np.zeros((4, 3071), np.uint8)}, "3072"),
        ({"data": np.zeros(3072, np.uint8)}, "3072"),
        ({"data": np.zeros((4, 3072), np.float32)}, "f4"),
        ({"data": np.array([[None]])}, "O8"),
        ({"data": b"text"}, "3072"),
    ],
)
def test_a_wrong_batch_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_batch(pickle.dumps(batch(0, **changes), protocol=2), "here")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with pytest.raises(UserError, match="here is no CIFAR-10 batch"):
        read_batch(raw, "here")


@given(st.integers(0, 3000), st.integers(0, 255))
def test_a_flipped_byte_is_read_or_refused(position: int, byte: int) -> None:
    raw = bytearray(pickle.dumps(batch(0), protocol=2))
    raw[-1 - position if position < 300 else position - 300] = byte
    try:
        images, labels = read_batch(bytes(raw), "here")
    except UserError:
        return
    assert images.shape[1:] == (3, 32, 32) and len(images) == len(labels)


def test_fortran_order_is_kept() -> None:
    made = batch(0)
    turned = made | {b"data": np.asfortranarray(made[b"data"])}
    raw = io.BytesIO()
    pickle.dump(turned, raw, protocol=2)
    assert np.array_equal(read_batch(raw.getvalue(), "here")[0].reshape(ROWS, 3072), made[b"data"])
