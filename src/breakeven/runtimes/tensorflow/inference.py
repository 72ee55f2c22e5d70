"""A case of inference: a call on resident batches, or on batches that it copies in.

Knows nothing about training or the protocol of runtimes beyond `handed_over`.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from breakeven.records.case import Case
from breakeven.runtimes import Prepared, bits
from breakeven.runtimes.checks import Told, check, native
from breakeven.runtimes.inference.handed import Making, Net, handed_over
from breakeven.runtimes.inference.inputs import Images, Inputs, Logits, inputs_of
from breakeven.runtimes.tensorflow import nets, place, precision, profile
from breakeven.runtimes.tensorflow.library import tf
from breakeven.runtimes.tensorflow.session import set_up
from breakeven.runtimes.tensorflow.training import driven, traces

EXACT_BATCH = 16
"""Images a call of the FP32 net that agreement is judged by."""


Tensor = Any


def prepare(case: Case) -> Prepared:
    """The case as `Prepared`. Raises Unsupported where this machine lacks what it needs."""
    device = set_up(case)
    inputs = inputs_of(case)
    calls: list[Callable[..., Any]] = []
    made = handed_over(
        inputs,
        Making(
            build=lambda: _built(inputs, device, calls),
            own_checks=lambda net: _own_checks(inputs, device),
            exact=partial(_exact, inputs),
            ran=lambda net: _ran(case),
            distinct=len(inputs.resident()),
            close=calls.clear,
        ),
    )
    return dataclasses.replace(
        made,
        counters=lambda: {**made.counters(), "tf_traces": sum(map(traces, calls))},
        memory=partial(place.memory, case.device),
        reset_memory=partial(place.reset_memory, case.device),
        profile=partial(profile.profiled, made.step, made.sync, case.device),
    )


def _built(inputs: Inputs, device: str, calls: list[Callable[..., Any]]) -> Net:
    """Builds the net, puts the batches in place, and traces and compiles the call by making it once."""
    case = inputs.case
    policy = precision.policy_of(case.tuning.precision, "infer")
    kind = tf.as_dtype(policy)
    with tf.device(device):
        net = nets.build(inputs.model, inputs.weights, policy)
    run = driven(lambda images: net(images, training=False), case.tuning.execution)
    calls[:] = [run]
    resident = case.tuning.residency == "device"
    on_host = [nets.channels_last(batch) for batch in inputs.resident()]
    batches = [_placed(batch, device, kind) for batch in on_host] if resident else []
    last: list[Tensor] = []

    def scored(images: Images) -> Tensor:
        with tf.device(device):
            return run(_placed(nets.channels_last(images), device, kind))

    def call(index: int) -> None:
        with tf.device(device):
            last[:] = [run(batches[index])]

    def copied(index: int) -> None:
        with tf.device(device):
            last[:] = [run(_placed(on_host[index], device, kind)).numpy()]

    def output() -> Images:
        return nets.channels_first(np.asarray(last[0], np.float32))

    def observed() -> Mapping[str, Any]:
        return observe(inputs, net, device, last[0] if last and resident else None)

    made = Net(
        call=call if resident else copied,
        sync=place.sync_of(case.device),
        output=output,
        logits=lambda images: nets.channels_first(np.asarray(scored(images), np.float32)),
        observed=observed,
    )
    made.call(0)
    made.sync()
    return made


def _placed(images: Images, device: str, kind: Any) -> Tensor:
    """Images of the host in float32, copied to the device and narrowed there."""
    with tf.device(device):
        return tf.cast(tf.constant(images), kind)


def observe(inputs: Inputs, net: nets.Net, device: str, output: Tensor | None) -> Mapping[str, Any]:
    """Cheap facts read back. Raises Mismatch if variables or the last output are on another device."""
    case = inputs.case
    tensors = {name: held.variable.value for name, held in net.held.items()}
    place.same_device(tensors if output is None else tensors | {"the output": output}, device)
    products = precision.read_back(case.device.kind == "cpu")
    label = place.device_label(case.device)
    return place.facts(case.device) | {
        "output_device": "cpu" if case.tuning.residency == "host" else label,
        "matmul_precision": products,
        "conv_precision": products,
        "policy": precision.policy_of(case.tuning.precision, "infer"),
        "weights_dtype": net.trained[0].dtype,
        "output_dtype": None if output is None else output.dtype.name,
        "weights_layout": "channels-last",
        "input_layout": "channels-last",
    }


def _own_checks(inputs: Inputs, device: str) -> Iterator[Told]:
    """What the costliest layers keep of their input's bits."""
    case, on_cpu = inputs.case, inputs.case.device.kind == "cpu"
    asked = case.tuning.precision
    yield native(asked, precision.hardware(asked, on_cpu))
    with tf.device(device):
        probed = precision.probes(
            inputs.model,
            case.work.batch,
            policy=precision.policy_of(asked, "infer"),
            xla=case.tuning.execution == "xla",
        )
    names = {kind: found["precision"] for kind, found in probed.items()}
    yield "precision", "precision_mismatch", check(asked, probed, bits.agrees(asked, names))


def _ran(case: Case) -> str:
    """The precision that outputs are held to. `default`: TF32 on CUDA, FP32 on a CPU."""
    if case.tuning.precision != "default":
        return case.tuning.precision
    return "fp32" if case.device.kind == "cpu" else "tf32"


def _exact(inputs: Inputs) -> tuple[Logits, int]:
    """The net in FP32 on the CPU, and its batch."""
    host = "/device:CPU:0"
    with tf.device(host):
        net = nets.build(inputs.model, inputs.weights, "float32")
    run = driven(lambda images: net(images, training=False), "tf.function")

    def logits(images: Images) -> Images:
        made = run(_placed(nets.channels_last(images), host, tf.float32))
        return nets.channels_first(np.asarray(made, np.float32))

    return logits, EXACT_BATCH
