"""What the tensorflow runtime says about cases without importing it, and what presets mean for it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from breakeven.records.case import Device, Recipe, Tuning
from breakeven.records.tuning import preset
from breakeven.runtimes import load

from .tensorflow_cases import TUNINGS, infer, train
from .torch_cases import cuda, environment


@pytest.mark.parametrize("name", TUNINGS)
def test_every_tuning_is_supported(name: str) -> None:
    assert load("tensorflow").supports(train(**TUNINGS[name])) is None


@pytest.mark.parametrize("precision", ["default", "fp32", "fp16", "bf16"])
def test_inference_is_supported(precision: str) -> None:
    assert load("tensorflow").supports(infer(precision=precision)) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"execution": "cuda-graph"}, "no execution cuda-graph: use tf.function, xla, eager"),
        ({"layout": "channels-first"}, "set layout to channels-last"),
        ({"precision": "int8"}, "no precision int8"),
        ({"precision": "tf32"}, "tf32 exists on CUDA devices only"),
        ({"optimizer_impl": "fused"}, "leave optimizer_impl out"),
        ({"augment_on": "device"}, "augmentation on the device of data on the host is not built yet"),
        ({"autotune": True}, "it tunes as it likes"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"recipe": Recipe(accumulation=3)}, "accumulation must divide the batch of 32"),
        ({"recipe": Recipe(loss="cyclegan")}, "loss cyclegan is no loss of simple-cnn-w0.25"),
        ({"model": "resnet19"}, "unknown model 'resnet19'"),
    ],
)
def test_reasons(changes: dict[str, Any], reason: str) -> None:
    told = load("tensorflow").supports(train(**changes))
    assert told is not None and reason in told


def test_pinned_memory_and_simulated_devices_are_refused() -> None:
    asked = train()
    on_gpu = dataclasses.replace(asked, device=cuda(), tuning=dataclasses.replace(asked.tuning, pinned=True))
    told = load("tensorflow").supports(on_gpu)
    assert told is not None and "no page-locked input" in told
    told = load("tensorflow").supports(dataclasses.replace(asked, device=Device(kind="sim", name="gpu")))
    assert told is not None and "no device of kind sim" in told


def test_saying_so_imports_no_tensorflow() -> None:
    script = (
        "import sys; from breakeven.runtimes import load; from runtimes.tensorflow_cases import train;"
        "assert load('tensorflow').supports(train()) is None; load('tensorflow').PRELOAD;"
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env=environment(), timeout=60)


def test_presets_are_graphs_and_the_compiled_ones_xla() -> None:
    own = Tuning(runtime="tensorflow")
    for kind, name, execution in (
        ("cpu", "as-written", "tf.function"),
        ("cpu", "compile", "xla"),
        ("cuda", "cuda-graph", "tf.function"),
        ("cuda", "compile", "xla"),
    ):
        tuning = preset(name, kind, own)
        assert (tuning.execution, tuning.layout) == (execution, "channels-last")
        assert (tuning.pinned, tuning.optimizer_impl) == (False, None)
    assert preset("eager", "cuda", own, task="infer").execution == "tf.function"
    assert preset("compiled", "cuda", own, task="infer").execution == "xla"


@pytest.mark.framework
def test_importing_it_runs_nothing_and_opens_no_device() -> None:
    pytest.importorskip("tensorflow")
    script = (
        "import importlib; from breakeven.runtimes import load;"
        "[importlib.import_module(name) for name in load('tensorflow').PRELOAD];"
        "from tensorflow.python.eager import context; import keras, os;"
        "assert not context.context()._initialized;"
        "assert keras.backend.backend() == 'tensorflow';"
        "assert os.environ['TF_FORCE_GPU_ALLOW_GROWTH'] == 'true'"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env=environment(), timeout=120)
