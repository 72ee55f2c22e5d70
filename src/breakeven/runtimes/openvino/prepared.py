"""A case with OpenVINO as `Prepared`.

Knows nothing about clocks, files of results or other processes.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import openvino as ov

from breakeven.errors import Mismatch
from breakeven.records.case import Case
from breakeven.runtimes import Prepared, host
from breakeven.runtimes.checks import Told, check
from breakeven.runtimes.inference.fidelity import weighted
from breakeven.runtimes.inference.handed import Making, Net, handed_over
from breakeven.runtimes.inference.inputs import CALIBRATION, Images, Inputs, Logits, inputs_of
from breakeven.runtimes.onnx import graph
from breakeven.runtimes.openvino import plugin

EXACT_BATCH = 16
"""Images a call of the FP32 net that agreement is judged by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """A compiled model with one request, and the resident batches."""

    case: Case
    made: Any  # openvino.CompiledModel
    workers: int | None  # threads that it started
    call: Callable[[int], None]
    output: Callable[[], Images]


def prepare(case: Case) -> Prepared:
    """The case as `Prepared`. Raises Unsupported where this machine lacks what it needs."""
    plugin.refuse_emulation(case.tuning.precision)
    inputs = inputs_of(case)
    return with_model(inputs, _model(inputs), plugin.configuration(case))


def with_model(inputs: Inputs, model: Any, settings: dict[str, Any]) -> Prepared:
    """The case run by `model`, for any batch, compiled with `settings`."""
    case = inputs.case
    model.reshape([inputs.batch, *inputs.model.input_shape])
    resident = inputs.resident()
    made: list[Compiled] = []

    def build() -> Net:
        made[:] = [compile_(case, model, resident, settings)]
        return net_of(made[0], inputs)

    return handed_over(
        inputs,
        Making(
            build=build,
            own_checks=lambda net: own_checks(made[0], inputs),
            exact=partial(exact, inputs),
            ran=lambda net: ran_as(made[0]),
            distinct=len(resident),
            close=made.clear,
        ),
    )


def ran_as(compiled: Compiled) -> str:
    """The precision that outputs are held to: what `default` resolved to, else what was asked."""
    asked = compiled.case.tuning.precision
    return plugin.resolved(compiled.made) if asked == "default" else asked


def _model(inputs: Inputs) -> Any:
    """The case's `openvino.Model` for any batch: INT8, or FP32, which the plugin converts itself."""
    if inputs.case.tuning.precision == "int8":
        from breakeven.runtimes.openvino import calibrated

        return calibrated.quantised(inputs)
    return plugin.core().read_model(graph.graph(inputs.model, inputs.weights).SerializeToString())


def compile_(case: Case, model: Any, resident: list[Images], settings: dict[str, Any]) -> Compiled:
    """Compiles the model for its one shape, with one request and its batches."""
    before = host.started_threads()
    made = plugin.compiled(model, settings)
    request = made.create_infer_request()
    after = host.started_threads()
    workers = after - before if after is not None and before is not None else None
    call = (_shared if case.tuning.residency == "device" else _copied)(request, resident)
    return Compiled(
        case=case,
        made=made,
        workers=workers,
        call=call,
        output=lambda: np.array(request.get_output_tensor(0).data, np.float32),
    )


def _shared(request: Any, resident: list[Images]) -> Callable[[int], None]:
    """A call reads its batch where it lies and leaves the output in the request."""
    tensors = [ov.Tensor(batch, shared_memory=True) for batch in resident]

    def call(index: int) -> None:
        request.set_input_tensor(0, tensors[index])
        request.infer(share_outputs=True)

    return call


def _copied(request: Any, resident: list[Images]) -> Callable[[int], None]:
    """A call copies its batch into the request and the output into a new array."""

    def call(index: int) -> None:
        request.infer({0: resident[index]}, share_inputs=False, share_outputs=False)

    return call


def net_of(compiled: Compiled, inputs: Inputs) -> Net:
    return Net(
        call=compiled.call,
        output=compiled.output,
        sync=lambda: None,  # infer() returns when the request is done
        logits=logits_of(compiled.made),
        observed=lambda: observe(compiled, inputs),
    )


def logits_of(made: Any) -> Logits:
    request = made.create_infer_request()

    def logits(images: Images) -> Images:
        return np.array(request.infer({0: images}, share_inputs=True, share_outputs=True)[0], np.float32)

    return logits


def observe(compiled: Compiled, inputs: Inputs) -> Mapping[str, Any]:
    """Cheap facts read back. Raises Mismatch where device, threads or precision are not the asked ones."""
    case, made = compiled.case, compiled.made
    found = plugin.facts(made)
    if found["execution_devices"] != ["CPU"]:
        raise Mismatch("device_mismatch", f"asked CPU, found {', '.join(found['execution_devices'])}")
    same_precision(case, found["inference_precision"])
    found |= {
        "device": "cpu",
        "device_name": host.cpu_name(),
        "output_device": "cpu",
        "started_threads": compiled.workers,
        "fp32_precision": found["inference_precision"] if case.tuning.precision == "fp32" else None,
    }
    if case.tuning.precision == "int8":
        from breakeven.runtimes.openvino import calibrated

        words = {"recipe": case.tuning.calibration or CALIBRATION, "images": inputs.known.name}
        found["calibration"] = (
            words | calibrated.recipe(inputs) | {"float_parts": found["inference_precision"]}
        )
    return found


def same_precision(case: Case, found: str) -> None:
    """Raises Mismatch unless the compiled model's float type is the asked one; `default` asks for none."""
    asked = {"int8": "fp32"}.get(case.tuning.precision, case.tuning.precision)
    if asked not in ("default", found):
        raise Mismatch("precision_mismatch", f"asked {asked}, the compiled model computes in {found}")


def own_checks(compiled: Compiled, inputs: Inputs) -> Iterator[Told]:
    """Device, number type of every product as the compiled model runs it, threads."""
    case, made = compiled.case, compiled.made
    devices = list(made.get_property("EXECUTION_DEVICES"))
    yield "placement", "device_mismatch", check(["CPU"], devices, devices == ["CPU"])
    yield "precision", "precision_mismatch", plugin.computed(made, ran_as(compiled), weighted(inputs.model))
    threads = int(made.get_property("INFERENCE_NUM_THREADS"))
    asked = host.threads_of(case)
    yield "threads", "invalid", check(asked, threads, asked == threads)


def exact(inputs: Inputs) -> tuple[Logits, int]:
    """The net with FP32 asked for, and its batch."""
    tuning = dataclasses.replace(inputs.case.tuning, precision="fp32", calibration=None)
    case = dataclasses.replace(inputs.case, tuning=tuning)
    model = plugin.core().read_model(
        graph.graph(inputs.model, inputs.weights, batch=EXACT_BATCH).SerializeToString()
    )
    return logits_of(plugin.compiled(model, plugin.configuration(case))), EXACT_BATCH
