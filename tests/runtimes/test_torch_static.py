"""What the torch runtime says about cases without importing torch."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from breakeven.errors import Unsupported
from breakeven.records.case import Case, Device, Recipe
from breakeven.records.tuning import preset
from breakeven.runtimes import load

from .torch_cases import TUNINGS, calls, case, cuda, environment

INT8: dict[str, Any] = {"precision": "int8", "device": cuda(), "layout": "channels-last"}


@pytest.mark.parametrize("name", TUNINGS)
def test_every_tuning_of_the_ladder_is_supported(name: str) -> None:
    assert load("torch").supports(case(**TUNINGS[name])) is None
    assert load("torch").supports(case(device=cuda(), precision="tf32", **TUNINGS[name])) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"execution": "cuda-graph"}, "a CUDA graph exists on CUDA devices only"),
        ({"execution": "cuda-graph", "device": cuda()}, "set residency to device"),
        ({"execution": "cuda-graph", "device": cuda(), "residency": "device"}, "set loss_sync to epoch"),
        ({"execution": "quick"}, "no execution quick"),
        ({"precision": "int8"}, "no precision int8 in training"),
        ({"precision": "tf32"}, "tf32 exists on CUDA devices only"),
        ({"optimizer_impl": "quick"}, "no optimizer implementation quick"),
        ({"augment_on": "device"}, "augmentation on the device of data on the host is not built yet"),
        ({"recipe": Recipe(accumulation=3)}, "accumulation must divide the batch of 64"),
        ({"device": Device(kind="cpu", world_size=2)}, "several devices are not built yet"),
        ({"device": Device(kind="sim", name="gpu")}, "no device of kind sim"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"model": "resnet19"}, "unknown model 'resnet19'"),
        ({"drop_last": False}, "every tuning drops the incomplete batch"),
    ],
)
def test_reasons(changes: dict[str, Any], reason: str) -> None:
    told = load("torch").supports(case(**changes))
    assert told is not None and reason in told


@pytest.mark.parametrize(
    "name", ["eager", "channels-last", "compiled", "cuda-graph", "fused-graph", "compiled-graph"]
)
def test_every_preset_of_inference_is_supported(name: str) -> None:
    tuning = preset(name, "cuda", task="infer")
    for precision in ("default", "fp32", "tf32", "fp16", "bf16"):
        asked = calls(device=cuda(), **(dataclasses.asdict(tuning) | {"precision": precision}))
        assert load("torch").supports(asked) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"execution": "cuda-graph"}, "a CUDA graph exists on CUDA devices only"),
        ({"execution": "session"}, "no execution session"),
        ({"precision": "int8"}, "set execution to compile:default"),
        ({**INT8, "layout": "channels-first"}, "set layout to channels-last"),
        ({**INT8, "execution": "compile:default"}, "set execution to eager or cuda-graph"),
        ({**INT8, "execution": "cuda-graph+compile:default"}, "set execution to eager or cuda-graph"),
        ({**INT8, "autotune": True}, "set autotune to false"),
        ({**INT8, "model": "mobilenetv2"}, "INT8 on CUDA: layer features.0.2 (ReLU6)"),
        ({**INT8, "model": "vit-tiny"}, "INT8 on CUDA: layer embed (Tokens)"),
        ({"precision": "fp8"}, "no precision fp8"),
        ({"precision": "tf32"}, "tf32 exists on CUDA devices only"),
        ({"model": "resnet19"}, "unknown model 'resnet19'"),
    ],
)
def test_reasons_of_inference(changes: dict[str, Any], reason: str) -> None:
    told = load("torch").supports(calls(**changes))
    assert told is not None and reason in told


@pytest.mark.parametrize("execution", ["eager", "cuda-graph"])
@pytest.mark.parametrize("name", ["simple-cnn", "vgg16", "resnet18", "resnet101", "resnet50-cifar"])
def test_int8_of_convolutional_nets_is_supported_on_cuda(name: str, execution: str) -> None:
    assert load("torch").supports(calls(name, execution=execution, **INT8)) is None


def test_too_few_classes_and_another_size_are_refused() -> None:
    asked = case()
    for change, reason in (({"num_classes": 2}, "10 classes"), ({"input_shape": (3, 64, 64)}, "3x32x32")):
        other = Case(work=dataclasses.replace(asked.work, **change), tuning=asked.tuning, device=asked.device)
        told = load("torch").supports(other)
        assert told is not None and reason in told
        with pytest.raises(Unsupported, match=reason):
            load("torch").prepare(other)


def test_saying_so_imports_no_torch() -> None:
    script = (
        "import sys; from breakeven.runtimes import load; from runtimes.torch_cases import case;"
        "assert load('torch').supports(case()) is None; load('torch').PRELOAD;"
        "sys.exit('torch' in sys.modules or 'PIL' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env=environment(), timeout=60)
