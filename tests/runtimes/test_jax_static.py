"""What the jax runtime says about cases without importing jax, and what presets mean for it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from breakeven.records.case import Device, Recipe, Tuning
from breakeven.records.tuning import preset
from breakeven.runtimes import load

from .jax_cases import TUNINGS, infer, train
from .torch_cases import cuda, environment


@pytest.mark.parametrize("name", TUNINGS)
def test_every_tuning_is_supported(name: str) -> None:
    assert load("jax").supports(train(**TUNINGS[name])) is None


@pytest.mark.parametrize("precision", ["default", "fp32", "fp16", "bf16"])
def test_inference_is_supported(precision: str) -> None:
    assert load("jax").supports(infer(precision=precision)) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"execution": "cuda-graph"}, "no execution cuda-graph: use jit or eager"),
        ({"precision": "int8"}, "no precision int8"),
        ({"precision": "tf32"}, "tf32 exists on CUDA devices only"),
        ({"optimizer_impl": "fused"}, "leave optimizer_impl out"),
        ({"augment_on": "device"}, "augmentation on the device of data on the host is not built yet"),
        ({"autotune": True}, "XLA tunes as it likes"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"recipe": Recipe(accumulation=3)}, "accumulation must divide the batch of 32"),
        ({"model": "resnet19"}, "unknown model 'resnet19'"),
    ],
)
def test_reasons(changes: dict[str, Any], reason: str) -> None:
    told = load("jax").supports(train(**changes))
    assert told is not None and reason in told


def test_pinned_memory_and_another_size_are_refused() -> None:
    asked = train()
    on_gpu = dataclasses.replace(asked, device=cuda(), tuning=dataclasses.replace(asked.tuning, pinned=True))
    told = load("jax").supports(on_gpu)
    assert told is not None and "page-locked memory by itself" in told
    other = dataclasses.replace(asked, work=dataclasses.replace(asked.work, input_shape=(3, 64, 64)))
    told = load("jax").supports(other)
    assert told is not None and "3x32x32" in told


def test_saying_so_imports_no_jax() -> None:
    script = (
        "import sys; from breakeven.runtimes import load; from runtimes.jax_cases import train;"
        "assert load('jax').supports(train()) is None; load('jax').PRELOAD;"
        "sys.exit('jax' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env=environment(), timeout=60)


def test_presets_are_jitted_programs_channels_last() -> None:
    own = Tuning(runtime="jax")
    for kind, name in (
        ("cpu", "as-written"),
        ("cpu", "compile"),
        ("cuda", "cuda-graph"),
        ("cuda", "compile"),
    ):
        tuning = preset(name, kind, own)
        assert (tuning.execution, tuning.layout) == ("jit", "channels-last")
        assert (tuning.pinned, tuning.optimizer_impl) == (False, None)
    for name in ("eager", "compiled", "cuda-graph"):
        tuning = preset(name, "cuda", own, task="infer")
        assert (tuning.execution, tuning.residency, tuning.runtime) == ("jit", "device", "jax")
    assert preset("on-device", "cpu", own).residency == "device"
    assert preset("bf16", "cuda", own).precision == "bf16"


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_torch_means_what_it_meant(kind: str) -> None:
    assert preset("as-written", kind) == Tuning()
    assert preset("as-written", kind, Tuning(runtime="sim")) == Tuning(runtime="sim")


def test_a_preset_that_names_its_runtime_keeps_it() -> None:
    assert preset("onnxruntime", "cpu", Tuning(runtime="jax"), task="infer").execution == "session"


def test_simulated_devices_are_refused() -> None:
    told = load("jax").supports(dataclasses.replace(train(), device=Device(kind="sim", name="gpu")))
    assert told is not None and "no device of kind sim" in told
