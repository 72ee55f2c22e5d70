"""OpenVINO on the CPU: what runs is what the case says, and planted faults are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from breakeven import runtimes
from breakeven.errors import Mismatch, Unsupported
from breakeven.runtimes import BUILD_CACHE
from breakeven.runtimes import openvino as runtime
from runtimes.inference_cases import CUDA, case

pytestmark = pytest.mark.framework
ov = pytest.importorskip("openvino")
pytest.importorskip("onnx")


def modules() -> Any:
    from breakeven.runtimes.openvino import plugin, prepared

    return plugin, prepared


def capabilities() -> list[str]:
    return list(ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"))


@pytest.mark.parametrize("precision", ["default", "fp32", "bf16", "fp16", "int8"])
def test_a_case_runs_as_it_says(precision: str) -> None:
    needed = {"bf16": "BF16", "fp16": "FP16", "int8": "INT8"}.get(precision)
    asked = case("openvino", precision)
    if needed and needed not in capabilities():
        with pytest.raises(Unsupported, match=f"no {needed}"):
            runtimes.load("openvino").prepare(asked)
        return
    if precision == "int8":
        pytest.importorskip("nncf")
    made = runtimes.load("openvino").prepare(asked)
    assert made.build is not None
    made.build()
    for _ in range(2 * made.steps_per_epoch):
        made.step()
        made.sync()
    seen = made.observed()
    # Left alone, the plugin takes BF16 where the processor has it: `default` is no FP32.
    resolved = {"default": "bf16" if "BF16" in capabilities() else "fp32", "int8": "fp32"}
    assert seen["inference_precision"] == resolved.get(precision, precision)
    assert (seen["execution_devices"], seen["streams"], seen["performance_hint"]) == (["CPU"], 1, "latency")
    found = made.checks()
    assert all(check["ok"] for check in found.values())
    assert sum(found["precision"]["found"].values()) == 5
    assert found["agreement"]["found"] > 0.9
    made.close()


def test_threads_are_set_and_read_back() -> None:
    seen = runtimes.load("openvino").prepare(case("openvino", "fp32", threads=1)).observed()
    assert seen["threads"] == 1


def test_a_hint_left_out_is_another_precision() -> None:
    if "BF16" not in capabilities():
        pytest.skip("this processor has no BF16: OpenVINO's default is FP32")
    plugin, prepared = modules()
    from breakeven.runtimes.inference.inputs import inputs_of
    from breakeven.runtimes.onnx import graph

    inputs = inputs_of(case("openvino", "fp32"))
    settings = plugin.configuration(inputs.case)
    del settings["INFERENCE_PRECISION_HINT"]
    model = plugin.core().read_model(graph.graph(inputs.model, inputs.weights).SerializeToString())
    made = prepared.with_model(inputs, model, settings)
    for look in (made.checks, made.observed):
        with pytest.raises(Mismatch, match="bf16") as raised:
            look()
        assert raised.value.outcome == "precision_mismatch"


def test_a_case_on_the_host_copies_and_computes_alike() -> None:
    found = runtimes.load("openvino").prepare(case("openvino", "fp32", residency="host")).checks()
    assert found["timed_calls"]["found"] == 0


def test_a_quantised_graph_is_kept_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nncf")
    monkeypatch.setenv(BUILD_CACHE, str(tmp_path))
    asked = case("openvino", "int8", calibration="minmax/8/train")
    first, again = (runtimes.load("openvino").prepare(asked).evaluate(4) for _ in range(2))
    assert first == again
    assert len(list(tmp_path.rglob("*.xml"))) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"precision": "tf32"}, "tf32 exists on CUDA"),
        ({"device": CUDA}, "only the CPU is built"),
        ({"execution": "eager"}, "no execution eager"),
        ({"autotune": True}, "tunes as it likes"),
    ],
)
def test_what_cannot_run_is_said_without_the_framework(changes: dict[str, Any], reason: str) -> None:
    told = runtime.supports(case("openvino", changes.pop("precision", "default"), **changes))
    assert told is not None
    assert reason in told
