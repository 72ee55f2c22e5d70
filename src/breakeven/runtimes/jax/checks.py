"""Deep checks that a training step is what its case says: device, precision, parameters, first step, update.

Knows nothing about time. Slow, and it takes training steps: for a process of its own.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from breakeven.runtimes import Evaluation, bits
from breakeven.runtimes.checks import TINY, Check, Told, check, decided, equal, gathered, native, turn
from breakeven.runtimes.jax import input, nets, precision, training
from breakeven.runtimes.jax.nets import Arrays
from breakeven.runtimes.jax.session import Session, device_label
from breakeven.runtimes.jax.training import Plan
from breakeven.workloads.costs import trained_parameter_count
from breakeven.workloads.data import normalized
from breakeven.workloads.layers import leaves
from breakeven.workloads.order import apply_augmentation
from breakeven.workloads.splits import Split
from breakeven.workloads.tolerances import DAMPING, PARITY_BATCH, parity_limits, within
from breakeven.workloads.weights import Weights, damped


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What is checked of one net and of four in its own way. `probes`: bits kept, by name; `note` on them."""

    probes: Callable[[Session], dict[str, dict[str, Any]]]
    parity: Callable[[Session, str], Check]
    as_declared: Callable[[Session, str], Check]
    weights_move: Callable[[Session], Check]
    note: str | None = None


def run(
    session: Session,
    evaluate: Callable[[int | None], Evaluation],
    observed: Callable[[], Mapping[str, Any]],
) -> dict[str, Check]:
    """All checks by name. Raises Mismatch at the first that shows another device, precision or output."""
    one = Kind(probes=_probes, parity=_parity, as_declared=_as_declared, weights_move=_weights_move)
    return gathered(told(one, session, evaluate, observed))


def told(
    kind: Kind,
    session: Session,
    evaluate: Callable[[int | None], Evaluation],
    observed: Callable[[], Mapping[str, Any]],
) -> Iterator[Told]:
    """Every check in its turn."""
    asked, plan = session.case.tuning.precision, session.plan
    counted = sum(array.size for array in session.training.carry["params"].values())
    yield "parameters", "invalid", equal(trained_parameter_count(plan.model), counted)
    yield native(asked, precision.hardware(asked, session.device))
    probed = kind.probes(session)
    names = {name: each["precision"] for name, each in probed.items()}
    yield "precision", "precision_mismatch", check(asked, probed, bits.same(asked, names), kind.note)
    ran = precision.roughest(probed)
    yield "one_step_parity", "output_mismatch", kind.parity(session, ran)
    yield "as_declared", "output_mismatch", kind.as_declared(session, ran)
    yield "weights_move", "invalid", kind.weights_move(session)
    scored = evaluate(1)
    yield "evaluation", "invalid", equal(min(session.scoring.split.n, plan.batch), scored.samples)
    facts = observed()  # raises Mismatch if an array is elsewhere
    device = device_label(session.case, session.device)
    yield "device", "device_mismatch", equal(device, facts["output_device"])


def _probes(session: Session) -> dict[str, dict[str, Any]]:
    asked = session.case.tuning.precision
    return probes(session.case.work.batch, asked, session.plan, np.float32, session.device)


def probes(
    batch: int, asked: str, plan: Plan, weights_type: Any, device: jax.Device
) -> dict[str, dict[str, Any]]:
    """Bits that the costliest convolution, matrix product and attention keep at their real shapes."""
    return {
        name: precision.probe(leaf, shape, batch, how=plan.how, weights_type=weights_type, device=device)
        for name, (leaf, shape) in bits.costliest(plan.model).items()
    }


def _parity(session: Session, ran: str) -> Check:
    """Loss and gradients of a first step against FP64 on the CPU: same weights, same samples."""
    (split,), plan, weights = session.train, session.plan, _damped(session)
    cpu, how = jax.devices("cpu")[0], nets.How(channels_last=plan.how.channels_last)
    precise = dataclasses.replace(plan, scaled=False, dtype=np.float64, how=how)

    def sampled(draw: int) -> input.HostBatch:
        images, labels = split.untied(PARITY_BATCH, draw).first(PARITY_BATCH)
        return nets.in_layout(images, channels_last=plan.how.channels_last), labels.astype(np.int32)

    def exact(draw: int, weights: Weights) -> tuple[float, dict[str, Any]]:
        with jax.enable_x64(True), jax.default_device(cpu):
            return _differentiated(precise, weights, *sampled(draw), cpu, np.float64)

    def compared(draw: int) -> Mapping[str, float]:
        mine = _differentiated(plan, weights, *sampled(draw), session.device, plan.dtype)
        return _apart(mine, exact(draw, weights))

    note = f"relative to FP64 on the CPU, batch {PARITY_BATCH}, as {ran}"
    return decided(
        _limits(session, ran), compared, lambda draw: turn(lambda w: _flat(exact(draw, w)[1]), weights), note
    )


def _as_declared(session: Session, ran: str) -> Check:
    """The first step of the program that is timed against the declared one.

    That takes the samples in the declared order, cropped and flipped by the reference of `workloads`, and
    makes their gradients apart; those of the program are read back from what Adam made of them.
    """
    made, plan, (split,) = session.training, session.plan, session.train
    weights = _damped(session)
    arrays = nets.placed(weights, channels_last=plan.how.channels_last)
    made.carry = training.first_carry(plan, arrays, session.device)
    made.begun, made.epoch, made.step_number = False, 0, 0
    images, labels = declared_batch(split, plan.batch, channels_last=plan.how.channels_last)
    expected_loss, expected = _differentiated(plan, weights, images, labels, session.device, plan.dtype)
    made.compile()
    made.step()
    loss = made.losses()[-1]
    share = 1 - plan.recipe.beta1  # of the gradient that the first moment is after one step
    gradient = {name: np.asarray(m, np.float64) / share for name, m in made.carry["m"].items()}
    if plan.recipe.weight_decay:
        expected = {
            k: g + plan.recipe.weight_decay * arrays[k].astype(np.float64) for k, g in expected.items()
        }
    note = f"relative to the declared step, batch {plan.batch}, as {ran}"
    # Dropout draws anew in each program.
    if any(type(leaf).__name__ == "Dropout" for leaf in leaves(plan.model.nodes)):
        return check(None, None, True, "not compared: dropout")
    limits, found = _limits(session, ran), _apart((loss, gradient), (expected_loss, expected))
    return check(limits, found, within(limits, found), note)


def declared_batch(split: Split, n: int, *, channels_last: bool) -> input.HostBatch:
    """The first samples of a training, cropped and flipped by the reference of `workloads`."""
    rows, table = split.order(0)[:n], split.offsets(0)
    declared = split.data.images[rows]
    if table is not None:
        declared = apply_augmentation(declared, table[rows])
    images = nets.in_layout(normalized(split.known, declared), channels_last=channels_last)
    return images, split.data.labels[rows].astype(np.int32)


def _apart(
    mine: tuple[float, Mapping[str, Any]], theirs: tuple[float, Mapping[str, Any]]
) -> dict[str, float]:
    """How far two losses and their gradients are from each other."""
    gradient = {name: mine[1][name] for name in theirs[1]}
    return {"loss": abs(mine[0] / theirs[0] - 1), "gradient": off(_flat(gradient), _flat(theirs[1]))}


def _flat(gradient: Mapping[str, Any]) -> NDArray[np.float64]:
    return np.concatenate([each.ravel() for each in gradient.values()])


def _limits(session: Session, ran: str) -> dict[str, float]:
    return parity_limits(ran, residual=_damped(session) is not session.weights)


def _differentiated(
    plan: Plan, weights: Weights, images: Any, labels: Any, device: jax.Device, dtype: Any
) -> tuple[float, dict[str, Any]]:
    """(loss, gradients by name in FP64 on the host) of a batch, whole."""
    arrays = {
        name: jax.device_put(array.astype(dtype), device)
        for name, array in nets.placed(weights, channels_last=plan.how.channels_last).items()
    }
    params: Arrays = {name: array for name, array in arrays.items() if nets.trained(name)}
    buffers: Arrays = {name: array for name, array in arrays.items() if not nets.trained(name)}
    key = jax.device_put(np.zeros(2, np.uint32), device)
    # A power of two that changes no bit of what does not underflow in FP16.
    scale = training.SCALE if plan.scaled else 1.0

    def both(params: Arrays, buffers: Arrays, images: Any, labels: Any, key: Any) -> tuple[Any, Arrays]:
        loss, found, *_ = training.gradients(plan, params, buffers, images, labels, key, scale)
        return loss, found

    loss, found = jax.jit(both)(params, buffers, *jax.device_put((images, labels), device), key)
    return float(loss), {name: np.asarray(g, np.float64) / scale for name, g in found.items()}


def _weights_move(session: Session) -> Check:
    """One real step of this case changes the weights: the optimizer is part of it."""
    before = {name: np.array(value) for name, value in session.training.carry["params"].items()}
    session.training.step()
    after = session.training.carry["params"]
    moved = sum(not np.array_equal(old, np.asarray(after[name])) for name, old in before.items())
    return check("some", f"{moved} of {len(before)} tensors", moved > 0)


def _damped(session: Session) -> Weights:
    """The initial weights with damped residual branches; the very same object for a net without any."""
    return damped(session.plan.model, session.weights, DAMPING)


def off(found: Any, expected: Any) -> float:
    """|found - expected| / |expected|; greater than any limit where something is no number."""
    if not np.isfinite(found).all():
        return float(np.finfo(np.float64).max)
    return float(np.linalg.norm(found - expected) / max(float(np.linalg.norm(expected)), TINY))
