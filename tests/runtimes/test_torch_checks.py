"""Checks of what really runs: bits, FLOPs, parity; each planted fault is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from breakeven.errors import Mismatch
from breakeven.runtimes import load

from .test_torch_training import settings_as_before
from .torch_cases import case, cuda, environment

__all__ = ["settings_as_before"]  # the fixture: used by every test here
pytestmark = pytest.mark.framework


def bits(found: dict[str, Any]) -> dict[str, int]:
    return {name: probe["bits"] for name, probe in found["precision"]["found"].items()}


@pytest.mark.parametrize("model", ["simple-cnn", "resnet18"])
def test_fp32_on_a_cpu_passes_every_check(model: str) -> None:
    prepared = load("torch").prepare(case(model, batch=32, precision="fp32"))
    found = dict(prepared.checks())
    assert all(check["ok"] for check in found.values())
    assert min(bits(found).values()) >= 20
    assert found["training_flops"]["found"] > 0
    assert found["one_step_parity"]["found"]["gradient"] < 1e-3
    assert found["one_step_parity"]["found"]["loss"] < 1e-5


def test_default_is_fp32_on_a_cpu_and_bf16_is_bf16() -> None:
    default = dict(load("torch").prepare(case(batch=32, residency="device")).checks())
    assert min(bits(default).values()) >= 20
    half = dict(load("torch").prepare(case(batch=32, precision="bf16", layout="channels-last")).checks())
    assert all(6 <= kept <= 8 for kept in bits(half).values())
    assert half["layout"]["found"] == "channels-last"


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_a_vit_passes_every_check(precision: str) -> None:
    prepared = load("torch").prepare(case("vit-tiny", batch=8, precision=precision, residency="device"))
    found = dict(prepared.checks())
    assert all(check["ok"] for check in found.values())
    kept = bits(found)
    assert set(kept) == {"conv", "matmul", "attention"}
    low, high = {"fp32": (20, 23), "fp16": (9, 11), "bf16": (6, 8)}[precision]
    assert all(low <= value <= high for value in kept.values())
    shapes = {name: probe["shape"] for name, probe in found["precision"]["found"].items()}
    assert shapes == {"conv": [8, 3, 32, 32], "matmul": [8, 65, 768], "attention": [8, 65, 576]}
    assert found["weights_move"]["found"] == "152 of 152 tensors"


def test_rough_attention_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch.nn import functional

    true = functional.scaled_dot_product_attention

    def rough(*qkv: torch.Tensor) -> torch.Tensor:
        return true(*(t.bfloat16() for t in qkv)).float()

    monkeypatch.setattr(functional, "scaled_dot_product_attention", rough)
    prepared = load("torch").prepare(case("vit-tiny", batch=8, precision="fp32", residency="device"))
    with pytest.raises(Mismatch, match="precision") as raised:
        prepared.checks()
    assert raised.value.outcome == "precision_mismatch"


def test_classes_of_precision() -> None:
    from breakeven.runtimes.bits import agrees, classify

    names = [classify(*probe) for probe in ((23, False), (20, False), (10, False), (10, True), (7, False))]
    assert names == ["fp32", "fp32", "tf32", "fp16", "bf16"]
    assert classify(15, False) is None and classify(2, False) is None
    assert agrees("default", {"conv": "tf32", "matmul": "fp32"})
    assert not agrees("fp32", {"conv": "tf32", "matmul": "fp32"})


def test_autocast_under_the_name_fp32_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from breakeven.runtimes.torch import precision

    true = precision.autocast
    prepared = load("torch").prepare(case(batch=32, precision="fp32"))
    monkeypatch.setattr(precision, "autocast", lambda asked, device: true("bf16", device))
    with pytest.raises(Mismatch, match="precision") as raised:
        prepared.checks()
    assert raised.value.outcome == "precision_mismatch"


def test_another_net_of_the_same_size_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from breakeven.runtimes.torch import checks

    true = checks._fresh

    def faulty(session: Any, weights: Any = None) -> Any:
        import torch

        net = true(session, weights)
        with torch.no_grad():
            net.get_parameter("classifier.0.weight").mul_(1.01)
        return net

    monkeypatch.setattr(checks, "_fresh", faulty)
    with pytest.raises(Mismatch, match="one_step_parity") as raised:
        load("torch").prepare(case(batch=32)).checks()
    assert raised.value.outcome == "output_mismatch"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_of_a_prepared_parent_trains_and_imports_nothing_heavy() -> None:
    """A fresh interpreter: this one ran operations, after which a forked child would hang."""
    script = """
import importlib, os, sys
from breakeven.runtimes import load
from runtimes.torch_cases import case
runtime = load("torch")
for name in runtime.PRELOAD:
    importlib.import_module(name)
child = os.fork()
if child == 0:
    before = set(sys.modules)
    prepared = runtime.prepare(case(batch=32, workers=1))
    prepared.step()
    new = set(sys.modules) - before
    for _ in range(3):
        prepared.step()
    finite = all(0 < loss < 10 for loss in prepared.losses())
    prepared.close()
    print(sorted(new), flush=True)
    os._exit(0 if len(new) < 10 and finite else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), timeout=120, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_availability_names_this_cpu() -> None:
    found = load("torch").availability()
    assert found.reason is None and found.versions["torch"]
    assert found.places[0].label == "cpu" and found.places[0].name
    assert found.places[0].memory_mib is not None and found.places[0].memory_mib > 100


def test_without_torch_the_install_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    reason = load("torch").availability().reason
    assert reason is not None and 'pip install "breakeven[torch]"' in reason


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["default", "fp32", "tf32", "bf16"])
@pytest.mark.parametrize("model", ["simple-cnn", "resnet18", "resnet50", "vit-tiny"])
def test_cuda_runs_in_the_precision_asked(model: str, precision: str) -> None:
    """In a process of its own: `default` needs settings that nobody has touched."""
    script = f"""
import json, sys
from breakeven.runtimes import load
from runtimes.torch_cases import case, cuda
prepared = load("torch").prepare(case("{model}", device=cuda(), precision="{precision}", residency="device"))
json.dump(dict(prepared.checks()), sys.stdout)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), timeout=200, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(model, precision, found["precision"]["found"], found["one_step_parity"]["found"])
    kept = bits(found)
    low, high = {"fp32": (20, 23), "tf32": (9, 11), "bf16": (6, 8), "default": (9, 23)}[precision]
    assert all(low <= value <= high for name, value in kept.items() if name != "attention")
    assert kept.get("attention", 23) >= low  # finer than asked it may be


@pytest.mark.gpu
def test_cuda_memory_layouts_and_equality() -> None:
    import torch

    from breakeven.runtimes.torch.parity import fp64_losses

    loaded = fp64_losses(case(batch=16, device=cuda(), workers=2, pinned=True))
    assert fp64_losses(case(batch=16, device=cuda(), residency="device")) == pytest.approx(loaded, rel=1e-8)
    assert fp64_losses(case(batch=16)) == pytest.approx(loaded, rel=1e-8)
    prepared = load("torch").prepare(
        case(
            device=cuda(),
            residency="device",
            loss_sync="epoch",
            layout="channels-last",
            optimizer_impl="fused",
        )
    )
    prepared.step()
    prepared.reset_memory()
    prepared.step()
    prepared.sync()
    peaks = prepared.memory()
    assert set(peaks) == {"torch_allocated_peak_mib", "torch_reserved_peak_mib"}
    assert 0 < peaks["torch_allocated_peak_mib"] <= peaks["torch_reserved_peak_mib"]
    seen = prepared.observed()
    assert seen["device"] == "cuda:0" and seen["optimizer_impl"] == "fused"
    assert seen["device_name"] == torch.cuda.get_device_name(0)
    prepared.close()
