"""A case with ONNX Runtime as `Prepared`.

Knows nothing about clocks, files of results or other processes.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnxruntime as ort

from breakeven.errors import Mismatch, Unsupported
from breakeven.records.case import Case, Device
from breakeven.runtimes import Prepared, host
from breakeven.runtimes.checks import Told
from breakeven.runtimes.inference.fidelity import weighted
from breakeven.runtimes.inference.handed import Making, Net, handed_over
from breakeven.runtimes.inference.inputs import CALIBRATION, Images, Inputs, Logits, inputs_of
from breakeven.runtimes.onnx import graph
from breakeven.runtimes.onnxruntime import bits, placement, providers

EXACT_BATCH = 16
"""Images a call of the FP32 session that agreement is judged by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """How resident batches are run: call(i), then sync(); output() reads back what the last call made."""

    call: Callable[[int], None]
    sync: Callable[[], None]
    output: Callable[[], Images]


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A session with its resident batches, bound to where it runs."""

    case: Case
    made: Any  # onnxruntime.InferenceSession
    workers: int | None  # threads that it started
    calls: Calls


def prepare(case: Case) -> Prepared:
    """The case as `Prepared`. Raises Unsupported where this machine lacks what it needs."""
    providers.providers_of(case)
    if case.device.kind == "cpu" and case.tuning.precision == "fp16":
        _refuse_casts(case)
    inputs = inputs_of(case)
    return with_graph(inputs, _graph(inputs))


def with_graph(inputs: Inputs, proto: Any) -> Prepared:
    """The case run by `proto`, its graph for any batch."""
    case, proto = inputs.case, graph.with_batch(proto, inputs.batch)
    resident = [batch.astype(numpy_type(case)) for batch in inputs.resident()]
    return handed_over(
        inputs,
        Making(
            build=lambda: net_of(build(case, proto, resident), inputs),
            own_checks=lambda net: own_checks(inputs, proto, resident[0]),
            exact=partial(exact, inputs),
            ran=lambda net: ran_as(case),
            distinct=len(resident),
        ),
    )


def numpy_type(case: Case) -> np.dtype[Any]:
    """The type of input and output: the case's, but that of the float parts where weights are integers."""
    return graph.NUMPY.get(case.tuning.precision, graph.NUMPY["fp32"])


def ran_as(case: Case) -> str:
    """The precision that outputs are held to. `default`: TF32 on CUDA, FP32 on the CPU provider."""
    if case.tuning.precision != "default":
        return case.tuning.precision
    return "fp32" if case.device.kind == "cpu" else "tf32"


def _graph(inputs: Inputs) -> Any:
    """The case's graph for any batch."""
    precision = inputs.case.tuning.precision
    if precision == "int8":
        from breakeven.runtimes.onnxruntime import calibrated

        return calibrated.quantised(inputs)
    return graph.graph(inputs.model, inputs.weights, precision="fp16" if precision == "fp16" else "fp32")


def _refuse_casts(case: Case) -> None:
    """On x86 the CPU provider has no FP16 products: it would cast every layer's input and compute in FP32."""
    found = placement.computed(placement.tiny(case), "fp16", 1)
    if not found["ok"]:
        raise Unsupported(
            "ONNX Runtime's CPU provider has no FP16 kernels on this processor: "
            "it would insert casts and compute in FP32"
        )


def build(case: Case, proto: Any, resident: list[Any]) -> Session:
    """Creates the session and binds the batches. Raises Mismatch if it left the asked provider out."""
    before = host.started_threads()
    made = providers.session(proto, case, providers.session_options(host.threads_of(case)))
    after = host.started_threads()
    same_provider(case, made)
    calls = bound(case, made, resident) if case.tuning.residency == "device" else copied(made, resident)
    workers = after - before if after is not None and before is not None else None
    return Session(case=case, made=made, workers=workers, calls=calls)


def same_provider(case: Case, made: Any) -> None:
    """Raises Mismatch unless the session's first provider is the asked one: it falls back in silence."""
    asked, found = providers.wanted(case), made.get_providers()
    if found[0] != asked:
        raise Mismatch("device_mismatch", f"asked {asked}, the session has {', '.join(found)}")


def bound(case: Case, made: Any, resident: list[Any]) -> Calls:
    """Batches lie where the net runs, and the output stays there: one IO binding a batch, one output for all.

    run_with_iobinding returns when the provider's stream is done, unless `disable_synchronize_execution_
    providers` is set, which is not done here; synchronize_outputs then waits for the whole device once more.
    """
    place = ("cpu", 0) if case.device.kind == "cpu" else ("cuda", case.device.index)
    shape = made.get_outputs()[0].shape
    output = ort.OrtValue.ortvalue_from_shape_and_type(shape, resident[0].dtype, *place)
    bindings = []
    for batch in resident:
        binding = made.io_binding()
        binding.bind_ortvalue_input(graph.INPUT, ort.OrtValue.ortvalue_from_numpy(batch, *place))
        binding.bind_ortvalue_output(graph.OUTPUT, output)
        binding.synchronize_inputs()
        bindings.append(binding)
    return Calls(
        call=lambda index: made.run_with_iobinding(bindings[index]),
        sync=bindings[0].synchronize_outputs,
        output=lambda: np.asarray(output.numpy(), np.float32),
    )


def copied(made: Any, resident: list[Any]) -> Calls:
    """A call copies its batch in and the output back: `run` returns when the output is in host memory."""
    feeds = [{graph.INPUT: batch} for batch in resident]

    last: list[Any] = []

    def call(index: int) -> None:
        last[:] = made.run((graph.OUTPUT,), feeds[index])

    return Calls(call=call, sync=lambda: None, output=lambda: np.asarray(last[0], np.float32))


def net_of(session: Session, inputs: Inputs) -> Net:
    return Net(
        call=session.calls.call,
        sync=session.calls.sync,
        output=session.calls.output,
        logits=logits_of(session.made, numpy_type(session.case)),
        observed=lambda: observe(session, inputs),
    )


def logits_of(made: Any, kind: np.dtype[Any]) -> Logits:
    def logits(images: Images) -> Images:
        (output,) = made.run((graph.OUTPUT,), {graph.INPUT: images.astype(kind, copy=False)})
        return np.asarray(output, np.float32)

    return logits


def observe(session: Session, inputs: Inputs) -> Mapping[str, Any]:
    """Cheap facts read back. Raises Mismatch if the session's provider is not the asked one."""
    case, made = session.case, session.made
    same_provider(case, made)
    kind = made.get_inputs()[0].type
    found = providers.facts(made) | {
        "device": case.device.label if case.device.kind == "cuda" else "cpu",
        "device_name": host.cpu_name() if case.device.kind == "cpu" else None,
        "output_device": "cpu" if case.tuning.residency == "host" else case.device.label.split(":threads")[0],
        "started_threads": session.workers,
        "input_dtype": kind.removeprefix("tensor(").removesuffix(")"),
        "fp32_precision": ran_as(case) if case.tuning.precision in ("default", "fp32", "tf32") else None,
        "run_waits": True,
    }
    if case.tuning.precision == "int8":
        from breakeven.runtimes.onnxruntime import calibrated

        words = {"recipe": case.tuning.calibration or CALIBRATION, "images": inputs.known.name}
        found["calibration"] = words | calibrated.recipe(inputs) | {"float_parts": "fp32"}
    return found


def own_checks(inputs: Inputs, proto: Any, images: Any) -> Iterator[Told]:
    """Provider and number type of every node, from a profiled session of its own."""
    case = inputs.case
    nodes = placement.ran(proto, case, host.threads_of(case), images)
    yield "placement", "device_mismatch", placement.placed(nodes, providers.wanted(case))
    if providers.wanted(case) != providers.TENSORRT:  # whose nodes are whole engines
        yield (
            "precision",
            "precision_mismatch",
            placement.computed(nodes, ran_as(case), weighted(inputs.model)),
        )
    if case.tuning.precision in ("default", "fp32", "tf32"):
        yield "kept_bits", "precision_mismatch", bits.kept(case)


def exact(inputs: Inputs) -> tuple[Logits, int]:
    """The FP32 net on the CPU provider, and its batch."""
    tuning = dataclasses.replace(inputs.case.tuning, precision="fp32", execution="session", calibration=None)
    case = dataclasses.replace(inputs.case, tuning=tuning, device=Device(kind="cpu"))
    proto = graph.graph(inputs.model, inputs.weights, batch=EXACT_BATCH)
    made = providers.session(proto, case, providers.session_options(host.threads_of(case)))
    return logits_of(made, np.dtype(np.float32)), EXACT_BATCH
