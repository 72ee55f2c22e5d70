"""A built net as `Prepared`: what runtimes that are given a whole net hand to the timing loop alike.

Knows nothing about any of them, nor about clocks.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from breakeven.errors import Unsupported
from breakeven.runtimes import Evaluation, Prepared
from breakeven.runtimes.checks import Check, Told, check, equal, gathered, relative_l2
from breakeven.runtimes.inference.fidelity import fidelity
from breakeven.runtimes.inference.inputs import Images, Inputs, Logits, all_logits
from breakeven.workloads.costs import parameter_count
from breakeven.workloads.data import normalized
from breakeven.workloads.order import order_hash
from breakeven.workloads.tolerances import OUTPUT_ERROR
from breakeven.workloads.weights import weights_hash


@dataclass(frozen=True, kw_only=True, slots=True)
class Net:
    """A net that runs.

    call(i) enqueues one forward pass of resident batch i, sync() waits for all; output() reads back what the
    last one made; logits(images) runs one batch of any images; observed() reads back who computed and how.
    """

    call: Callable[[int], None]
    sync: Callable[[], None]
    output: Callable[[], Images]
    logits: Logits
    observed: Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Making:
    """How a runtime makes the net of a case, and checks it.

    `build` compiles it and puts the resident batches in place; `own_checks(net)` yields what only this
    runtime can tell; `exact` makes the FP32 net on the CPU and names its batch; `ran(net)` is the
    precision that the outputs are held to.
    """

    build: Callable[[], Net]
    own_checks: Callable[[Net], Iterator[Told]]
    exact: Callable[[], tuple[Logits, int]]
    ran: Callable[[Net], str]
    distinct: int
    close: Callable[[], None] = lambda: None


@dataclass(kw_only=True, slots=True)
class _Running:
    """The net once it is built, and which batch comes next."""

    inputs: Inputs
    making: Making
    nets: list[Net] = field(default_factory=list)
    builds: int = 0
    turn: int = 0

    @property
    def net(self) -> Net:
        if not self.nets:
            self.build()
        return self.nets[0]

    def build(self) -> Mapping[str, Any]:
        self.nets[:] = [self.making.build()]
        self.builds += 1
        # Neither runtime keeps what it compiled: each session is made anew.
        return {"cache_state": "cold"}

    def step(self) -> None:
        net = self.nets[0] if self.nets else self.net
        net.call(self.turn)
        self.turn = (self.turn + 1) % self.making.distinct

    def close(self) -> None:
        self.nets.clear()
        self.making.close()


def handed_over(inputs: Inputs, making: Making) -> Prepared:
    """The case as `Prepared`; the net is built by `build`, or by whatever needs it first."""
    running = _Running(inputs=inputs, making=making)
    return Prepared(
        step=running.step,
        sync=lambda: running.nets[0].sync() if running.nets else None,
        samples_per_step=inputs.batch,
        steps_per_epoch=making.distinct,
        next_epoch=lambda: None,
        evaluate=lambda n: _evaluate(inputs, running.net.logits, n),
        losses=tuple,
        checks=lambda: gathered(_told(inputs, making, running.net)),
        observed=lambda: running.net.observed(),
        counters=lambda: {"builds": running.builds},
        memory=dict,
        reset_memory=lambda: None,
        save=_no_state,
        restore=_no_state,
        close=running.close,
        hashes={"weights": weights_hash(inputs.weights), "order": order_hash(inputs.rows)},
        parameters=parameter_count(inputs.model),
        eval_samples=len(inputs.test.labels),
        build=running.build,
        nulls={"phases": "one call is one piece"},
    )


def _no_state(folder: Path) -> None:
    raise Unsupported("inference has no training state")


def _told(inputs: Inputs, making: Making, net: Net) -> Iterator[Told]:
    given = sum(array.size for name, array in inputs.weights.items() if ".running_" not in name)
    yield "parameters", "invalid", equal(parameter_count(inputs.model), given)
    yield from making.own_checks(net)
    ran = making.ran(net)
    yield "timed_calls", "output_mismatch", _timed_calls(inputs, net, OUTPUT_ERROR[ran])
    exact, batch = making.exact()
    yield from fidelity(inputs, ran, net.logits, exact, batch)


def _timed_calls(inputs: Inputs, net: Net, limit: float) -> Check:
    """Whether the calls that are timed compute what the same net makes of their batches elsewhere."""
    errors = []
    for index, rows in enumerate(inputs.rows):
        net.call(index)
        net.sync()
        expected = net.logits(normalized(inputs.known, inputs.test.images[rows]))
        errors.append(relative_l2(net.output(), expected))
    return check(limit, max(errors), max(errors) <= limit, f"relative L2, {len(errors)} batches")


def _evaluate(inputs: Inputs, run: Logits, n: int | None) -> Evaluation:
    """Scores the test set, or its first `n` batches of it, batch by batch."""
    labels = inputs.test.labels
    steps = samples = right = 0
    loss = 0.0
    for start in range(0, len(labels), inputs.batch):
        if n is not None and steps >= n:
            break
        wanted = labels[start : start + inputs.batch]
        logits = all_logits(run, inputs.images(start, len(wanted)), inputs.batch).astype(np.float64)
        if inputs.known.labelled:
            right += int((logits.argmax(1) == wanted).sum())
            loss += _cross_entropy(logits, wanted)
        steps, samples = steps + 1, samples + len(wanted)
    if not inputs.known.labelled or not samples:
        return Evaluation(steps=steps, samples=samples)
    return Evaluation(steps=steps, samples=samples, accuracy=right / samples, loss=loss / samples)


def _cross_entropy(logits: Any, labels: Any) -> float:
    """Sum over samples of -log softmax at the label."""
    shifted = logits - logits.max(1, keepdims=True)
    return float((np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(labels)), labels]).sum())
