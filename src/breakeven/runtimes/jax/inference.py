"""One call of inference as its tuning drives it, on the next of a few distinct batches.

Knows nothing about clocks. With `residency` device the batches lie where the net runs, in its type and
layout, and the scores stay there; with host a call copies its batch in as float32 and the scores back.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np

from breakeven.records.case import Case
from breakeven.runtimes import bits
from breakeven.runtimes.checks import Told, check, native
from breakeven.runtimes.inference import fidelity
from breakeven.runtimes.inference.handed import Making, Net
from breakeven.runtimes.inference.inputs import Images, Inputs, Logits, inputs_of
from breakeven.runtimes.jax import nets, place, precision
from breakeven.runtimes.jax.nets import Array, Arrays
from breakeven.runtimes.jax.session import device_label, read_precision, same_device, set_up
from breakeven.workloads import models
from breakeven.workloads.layers import Model

IN_FLIGHT = 64
"""Outputs that a sync on the CPU waits for: XLA lets at most 32 calls be under way at once (jaxlib 0.10), and
calls that do not need each other need not end in their order. Those on a GPU run in one stream."""

EXACT_BATCH = 16
"""Images a call of the FP32 net that agreement is judged by."""


@dataclass(kw_only=True, slots=True)
class Calls:
    """A net that runs: `arrays` are its weights in the type that runs, `batches` the distinct ones."""

    case: Case
    device: jax.Device
    arrays: Arrays
    program: Callable[[Arrays, Array], Array]
    batches: list[Any]
    made: deque[Any] = field(default_factory=deque)

    def call(self, index: int) -> None:
        self.made.append(self.program(self.arrays, self.batches[index]))

    def call_and_copy(self, index: int) -> None:
        scores = self.program(self.arrays, jax.device_put(self.batches[index], self.device))
        # Of a CPU's arrays `asarray` would be no copy: this one is what a caller does to keep the answer.
        self.made.append(np.array(scores))

    def sync(self) -> None:
        jax.block_until_ready(list(self.made))

    def output(self) -> Images:
        return self.declared(self.made[-1])

    def logits(self, images: Images) -> Images:
        batch = self.batches[0]
        given = nets.in_layout(images, channels_last=self.last).astype(batch.dtype)
        return self.declared(self.program(self.arrays, jax.device_put(given, self.device)))

    @property
    def last(self) -> bool:
        return self.case.tuning.layout == "channels-last"

    def declared(self, made: Any) -> Images:
        host = np.asarray(made).astype(np.float32)
        return nets.out_of_layout(host, channels_last=self.last)

    def observed(self) -> Mapping[str, Any]:
        """Cheap facts read back. Raises Mismatch if weights or the last output are on another device."""
        resident = self.case.tuning.residency == "device"
        same_device(self.arrays, self.device)
        if resident and self.made:
            same_device(self.made[-1], self.device)
        where = device_label(self.case, self.device)
        weights = next(iter(self.arrays.values()))
        return place.facts(self.device) | {
            "device": where,
            "output_device": where if resident else "cpu",
            "matmul_precision": read_precision(self.case, self.device),
            "conv_precision": read_precision(self.case, self.device),
            "weights_dtype": weights.dtype.name,
            "input_dtype": self.batches[0].dtype.name,
            "weights_layout": self.case.tuning.layout,
        }


def opened(case: Case) -> tuple[Inputs, Making, jax.Device]:
    """What the case computes with, and how its net is made and checked."""
    device = set_up(case)
    inputs = inputs_of(case)
    images = inputs.resident()
    return (
        inputs,
        Making(
            build=lambda: net_of(build(case, inputs, images, device)),
            own_checks=lambda net: own_checks(inputs, device),
            exact=partial(exact, inputs),
            ran=lambda net: ran_as(inputs, device),
            distinct=len(images),
        ),
        device,
    )


def net_of(calls: Calls) -> Net:
    resident = calls.case.tuning.residency == "device"
    return Net(
        call=calls.call if resident else calls.call_and_copy,
        sync=calls.sync,
        output=calls.output,
        logits=calls.logits,
        observed=calls.observed,
    )


def build(case: Case, inputs: Inputs, images: list[Images], device: jax.Device) -> Calls:
    """Puts weights and batches in place and compiles the net for them."""
    last, dtype = case.tuning.layout == "channels-last", _type(case)
    placed = nets.placed(inputs.weights, channels_last=last)
    arrays = {name: jax.device_put(array.astype(dtype), device) for name, array in placed.items()}
    batches: list[Any] = [nets.in_layout(batch, channels_last=last) for batch in images]
    if case.tuning.residency == "device":
        batches = [jax.device_put(batch.astype(dtype), device) for batch in batches]
    program = partial(scores, inputs.model, last)
    if case.tuning.execution == "jit":
        program = jax.jit(program).lower(arrays, jax.device_put(batches[0], device)).compile()
    kept = IN_FLIGHT if device.platform == "cpu" else 1
    return Calls(
        case=case,
        device=device,
        arrays=arrays,
        program=program,
        batches=batches,
        made=deque(maxlen=kept),
    )


def scores(model: Model, channels_last: bool, arrays: Arrays, images: Array) -> Array:
    """Scores [n, classes], or the images made, in the type of the weights."""
    some = next(iter(arrays.values()))
    made, _ = nets.forward(model, arrays, images.astype(some.dtype), nets.How(channels_last=channels_last))
    return made


def own_checks(inputs: Inputs, device: jax.Device) -> Iterator[Told]:
    """The bits that products keep, by the functions and the compiler that run the net."""
    asked = inputs.case.tuning.precision
    yield native(asked, precision.hardware(asked, device))
    found = _probed(inputs, device)
    names = {name: each["precision"] for name, each in found.items()}
    yield "precision", "precision_mismatch", check(asked, found, bits.same(asked, names))


def ran_as(inputs: Inputs, device: jax.Device) -> str:
    """The precision that outputs are held to: what was asked, or what `default` was found to be."""
    asked = inputs.case.tuning.precision
    if asked != "default":
        return asked
    return precision.roughest(_probed(inputs, device))


def _probed(inputs: Inputs, device: jax.Device) -> dict[str, dict[str, Any]]:
    how = nets.How(channels_last=inputs.case.tuning.layout == "channels-last")
    return {
        name: precision.probe(
            leaf, shape, inputs.batch, how=how, weights_type=_type(inputs.case), device=device
        )
        for name, (leaf, shape) in bits.costliest(inputs.model).items()
    }


def exact(inputs: Inputs) -> tuple[Logits, int]:
    """The FP32 net on the CPU, and its batch."""
    cpu = jax.devices("cpu")[0]
    arrays = {name: jax.device_put(array, cpu) for name, array in inputs.weights.items()}
    run = jax.jit(partial(scores, inputs.model, False))
    translating = models.translates(inputs.case.work.model)
    batch = fidelity.TRANSLATED_IMAGES if translating else EXACT_BATCH
    return (lambda images: np.asarray(run(arrays, jax.device_put(images, cpu)))), batch


def _type(case: Case) -> Any:
    return precision.compute_type(case.tuning.precision) or np.float32
