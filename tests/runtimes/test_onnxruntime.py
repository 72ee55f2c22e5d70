"""ONNX Runtime on the CPU: what runs is what the case says, and planted faults are told."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from breakeven import runtimes
from breakeven.errors import Mismatch, Unsupported
from breakeven.runtimes import BUILD_CACHE
from breakeven.runtimes import onnxruntime as runtime
from runtimes.inference_cases import CUDA, case

pytestmark = pytest.mark.framework
ort = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

CPU = "CPUExecutionProvider"


def modules() -> Any:
    from breakeven.runtimes.onnxruntime import calibrated, placement, prepared, providers

    return calibrated, placement, prepared, providers


@pytest.mark.parametrize("precision", ["default", "fp32", "int8"])
def test_a_case_runs_as_it_says(precision: str) -> None:
    made = runtimes.load("onnxruntime").prepare(case("onnxruntime", precision))
    assert made.build is not None
    assert made.build() == {"cache_state": "cold"}
    for _ in range(2 * made.steps_per_epoch):
        made.step()
        made.sync()
    assert (made.samples_per_step, made.losses(), made.counters()) == (4, (), {"builds": 1})
    seen = made.observed()
    assert (seen["providers"], seen["device"], seen["interop_threads"]) == ([CPU], "cpu", 1)
    found = made.checks()
    assert all(check["ok"] for check in found.values())
    assert found["placement"]["found"].keys() == {CPU}
    assert found["precision"]["found"] == {"uint8" if precision == "int8" else "float": 5}
    assert found["agreement"]["found"] > 0.9
    if precision != "int8":
        assert found["kept_bits"]["found"] == {"conv": 23, "matmul": 23}
    made.close()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the kernel lists no open files here")
def test_nothing_is_reported_to_anybody(tmp_path: Path) -> None:
    """Left alone, importing ONNX Runtime 1.32 opens a database of events to send, in the user's cache."""
    code = (
        "import os, breakeven.runtimes.onnxruntime, onnxruntime\n"
        "links = ['/proc/self/fd/' + name for name in os.listdir('/proc/self/fd')]\n"
        "print([os.readlink(link) for link in links if os.path.islink(link) and '.db' in os.readlink(link)])"
    )
    environment = {name: value for name, value in os.environ.items() if name != runtime.NO_TELEMETRY}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert found.stdout.strip() == "[]"
    assert list(tmp_path.rglob("*.db")) == []


def test_int8_names_its_recipe() -> None:
    seen = runtimes.load("onnxruntime").prepare(case("onnxruntime", "int8")).observed()
    assert seen["calibration"]["recipe"] == "minmax/64/train"
    assert seen["calibration"]["activations"].startswith("uint8")
    assert seen["calibration"]["weights"] == "int8 symmetric per channel"


def test_threads_are_set_and_started() -> None:
    seen = runtimes.load("onnxruntime").prepare(case("onnxruntime", threads=3)).observed()
    assert (seen["threads"], seen["started_threads"]) == (3, 2)  # the caller is the third


def test_evaluation_scores_the_whole_test_set() -> None:
    made = runtimes.load("onnxruntime").prepare(case("onnxruntime", batch=7))
    whole, part = made.evaluate(None), made.evaluate(2)
    assert (whole.steps, whole.samples) == (52, 360)  # 51 batches of 7 and one of 3
    assert (part.steps, part.samples) == (2, 14)
    assert whole.accuracy is not None and whole.loss is not None and 2 < whole.loss < 3  # about ln 10


def test_a_case_on_the_host_copies_and_computes_alike() -> None:
    found = runtimes.load("onnxruntime").prepare(case("onnxruntime", residency="host")).checks()
    assert found["timed_calls"]["found"] == 0


def test_a_call_on_another_batch_than_its_own_is_an_output_mismatch() -> None:
    _, _, prepared, _ = modules()
    from breakeven.runtimes.inference.inputs import Inputs, inputs_of
    from breakeven.runtimes.onnx import graph

    class Shifted(Inputs):
        """Its resident batches are those of the next turn."""

        def resident(self) -> list[Any]:
            first, *others = super().resident()
            return [*others, first]

    loaded = inputs_of(case("onnxruntime"))
    inputs = Shifted(**{field.name: getattr(loaded, field.name) for field in dataclasses.fields(loaded)})
    made = prepared.with_graph(inputs, graph.graph(inputs.model, inputs.weights))
    with pytest.raises(Mismatch, match="timed_calls") as raised:
        made.checks()
    assert raised.value.outcome == "output_mismatch"


def test_a_session_that_falls_back_is_another_device() -> None:
    """A CPU build asked for CUDA makes a session all the same."""
    _, placement, prepared, providers = modules()
    from breakeven.runtimes.inference.inputs import inputs_of
    from breakeven.runtimes.onnx import graph

    inputs = inputs_of(case("onnxruntime"))
    proto = graph.graph(inputs.model, inputs.weights, batch=inputs.batch)
    if providers.CUDA in ort.get_available_providers():
        pytest.skip("this build has the CUDA provider")
    with pytest.warns(UserWarning, match="not in available provider names"):
        session = ort.InferenceSession(proto.SerializeToString(), providers=[providers.CUDA, CPU])
    asked = case("onnxruntime", device=CUDA)
    with pytest.raises(Mismatch, match="CUDAExecutionProvider") as raised:
        prepared.same_provider(asked, session)
    assert raised.value.outcome == "device_mismatch"
    nodes = placement.ran(proto, inputs.case, 1, inputs.images(0, inputs.batch))
    found = placement.placed(nodes, providers.CUDA)
    assert not found["ok"]
    assert "on CPUExecutionProvider" in found["note"]
    with pytest.raises(Unsupported, match="onnxruntime-gpu"):
        runtimes.load("onnxruntime").prepare(asked)


def test_fp16_that_is_cast_to_fp32_is_another_precision() -> None:
    """On x86 the CPU provider computes an FP16 graph in FP32: refused beforehand, and found by the check."""
    _, placement, prepared, _ = modules()
    from breakeven.runtimes.inference.inputs import inputs_of
    from breakeven.runtimes.onnx import graph

    asked = case("onnxruntime", "fp16")
    if placement.computed(placement.tiny(asked), "fp16", 1)["ok"]:
        pytest.skip("this processor has FP16 kernels")
    with pytest.raises(Unsupported, match="insert casts"):
        runtimes.load("onnxruntime").prepare(asked)
    inputs = inputs_of(asked)
    made = prepared.with_graph(inputs, graph.graph(inputs.model, inputs.weights, precision="fp16"))
    with pytest.raises(Mismatch, match="'float'") as raised:
        made.checks()
    assert raised.value.outcome == "precision_mismatch"


def test_fp32_where_tf32_was_asked_is_told_by_its_bits() -> None:
    from breakeven.runtimes.onnxruntime import bits

    found = bits.kept(case("onnxruntime", "tf32"))  # which a CPU has not: it computes in FP32
    assert (found["asked"], found["found"], found["ok"]) == (10, {"conv": 23, "matmul": 23}, False)


def test_a_wrong_scale_is_an_output_mismatch() -> None:
    calibrated, _, prepared, _ = modules()
    from breakeven.runtimes.inference.inputs import inputs_of

    inputs = inputs_of(case("onnxruntime", "int8"))
    proto = calibrated.quantised(inputs)
    for tensor in proto.graph.initializer:
        if tensor.name == "logits_scale":
            wrong = onnx.numpy_helper.to_array(tensor) / np.float32(16)
            tensor.CopyFrom(onnx.numpy_helper.from_array(wrong, tensor.name))
            break
    else:
        pytest.fail(str([tensor.name for tensor in proto.graph.initializer]))
    with pytest.raises(Mismatch, match="output") as raised:
        prepared.with_graph(inputs, proto).checks()
    assert raised.value.outcome == "output_mismatch"


def test_a_quantised_graph_is_kept_by_what_it_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BUILD_CACHE, str(tmp_path))
    calibrated, _, _, _ = modules()
    from breakeven.runtimes.inference.inputs import inputs_of

    first = calibrated.quantised(inputs_of(case("onnxruntime", "int8", batch=4)))
    again = calibrated.quantised(inputs_of(case("onnxruntime", "int8", batch=8)))
    assert first.SerializeToString() == again.SerializeToString()
    calibrated.quantised(inputs_of(case("onnxruntime", "int8", calibration="minmax/32/train")))
    assert len(list(tmp_path.rglob("*.onnx"))) == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"precision": "tf32"}, "tf32 exists on CUDA"),
        ({"precision": "bf16"}, "lack BF16"),
        ({"precision": "int8", "device": CUDA}, "no INT8 convolution"),
        ({"execution": "session:tensorrt"}, "TensorRT exists on CUDA"),
        ({"execution": "eager"}, "no execution eager"),
        ({"layout": "channels-last"}, "lays tensors out as it likes"),
        ({"precision": "int8", "calibration": "entropy/9/train"}, "no calibration"),
        ({"precision": "int8", "calibration": "minmax/9/sha256:0"}, "no calibration"),
        ({"model": "resnet1"}, "unknown model"),
    ],
)
def test_what_cannot_run_is_said_without_the_framework(changes: dict[str, Any], reason: str) -> None:
    told = runtime.supports(case("onnxruntime", changes.pop("precision", "default"), **changes))
    assert told is not None
    assert reason in told


def test_what_runs_elsewhere_is_supported() -> None:
    cuda = ("default", "fp32", "tf32", "fp16")
    assert [runtime.supports(case("onnxruntime", p, device=CUDA)) for p in cuda] == [None] * 4
    rt = (*cuda, "bf16", "int8")
    assert [runtime.supports(case("tensorrt", p, device=CUDA)) for p in rt] == [None] * 6


def test_int8_for_tensorrt_is_signed_and_symmetric() -> None:
    calibrated, _, _, _ = modules()
    from breakeven.runtimes.inference.inputs import inputs_of

    proto = calibrated.quantised(inputs_of(case("tensorrt", "int8", device=CUDA)))
    zeros = [t for t in proto.graph.initializer if t.name.endswith("_zero_point")]
    assert zeros
    assert all(t.data_type == onnx.TensorProto.INT8 for t in zeros)
    assert all(not onnx.numpy_helper.to_array(t).any() for t in zeros)


def test_engines_of_tensorrt_are_kept_nowhere_and_tf32_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract R28: one that an earlier run built would make building look free."""
    _, _, _, providers = modules()
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    assert providers.engine_options("fp16") == {
        "trt_fp16_enable": "1", "trt_engine_cache_enable": "0", "trt_timing_cache_enable": "0",
    }  # fmt: skip
    assert os.environ["NVIDIA_TF32_OVERRIDE"] == "1"
    assert "trt_fp16_enable" not in providers.engine_options("fp32")
    assert os.environ["NVIDIA_TF32_OVERRIDE"] == "0"


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["default", "fp32", "tf32", "fp16"])
@pytest.mark.parametrize("residency", ["device", "host"])
def test_every_node_runs_on_the_gpu(precision: str, residency: str) -> None:
    _, _, _, providers = modules()
    if providers.CUDA not in ort.get_available_providers():
        pytest.skip("this build of onnxruntime has no CUDA provider (onnxruntime-gpu has it)")
    asked = case("onnxruntime", precision, model="resnet18", device=CUDA, residency=residency)
    made = runtimes.load("onnxruntime").prepare(asked)
    found = made.checks()
    assert found["placement"]["found"].keys() == {providers.CUDA}
    assert made.observed()["output_device"] == ("cuda:0" if residency == "device" else "cpu")
