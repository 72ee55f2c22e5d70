"""Deep checks that CycleGAN's step is what its case says: device, precision, parameters, first step, update.

Knows nothing about time. Slow, and it takes training steps: for a process of its own.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from breakeven.runtimes import Evaluation, bits
from breakeven.runtimes.checks import Check, check, equal, gathered
from breakeven.runtimes.jax import nets, precision, translation
from breakeven.runtimes.jax.checks import Kind, declared_batch, off, told
from breakeven.runtimes.jax.session import Session
from breakeven.runtimes.jax.training import Plan
from breakeven.workloads import cyclegan
from breakeven.workloads.tolerances import parity_limits, within

PARITY_SIDE = 32
"""Extents of the images compared with FP64, cut from real ones: 29 GFLOP a step, and XLA's FP64 convolutions
reach 1.5 GFLOP/s on a CPU."""

PARTS = {"generators": cyclegan.GENERATORS, "discriminators": cyclegan.DISCRIMINATORS}

Host = NDArray[np.floating]
Pair = tuple[Host, Host]
"""Images of A and of B as `nets.forward` takes them."""


def run(
    session: Session,
    evaluate: Callable[[int | None], Evaluation],
    observed: Callable[[], Mapping[str, Any]],
) -> dict[str, Check]:
    """All checks by name. Raises Mismatch at the first that shows another device, precision or output."""
    four = Kind(
        probes=_probes,
        parity=_parity,
        as_declared=_as_declared,
        weights_move=_weights_move,
        note="of one convolution each; transposed ones are not probed",
    )
    return gathered(told(four, session, evaluate, observed))


def _probes(session: Session) -> dict[str, dict[str, Any]]:
    """Bits that the costliest convolution of a generator and of a discriminator keeps at its real shape."""
    plan, found, declared = session.plan, {}, cyclegan.nets(session.plan.model)
    for net in (cyclegan.GENERATORS[0], cyclegan.DISCRIMINATORS[0]):
        leaf, shape = bits.costliest(declared[net])["conv"]
        found[net] = precision.probe(
            leaf, shape, plan.batch, how=plan.how, weights_type=np.float32, device=session.device
        )
    return found


def _parity(session: Session, ran: str) -> Check:
    """Losses and gradients of a first step against FP64 on the CPU: same weights, same images."""
    plan = session.plan
    a, b = (_cut(images, plan) for images in _first_pair(session, 1))
    mine = _differentiated(session, plan, (a, b), session.device)
    with jax.enable_x64(True):
        exact = dataclasses.replace(
            plan, dtype=np.float64, how=nets.How(channels_last=plan.how.channels_last)
        )
        cpu = jax.devices("cpu")[0]
        with jax.default_device(cpu):
            expected = _differentiated(session, exact, (a, b), cpu)
    found = {}
    for part in PARTS:
        found[f"{part}_loss"] = abs(mine[0][part] / expected[0][part] - 1)
        found[f"{part}_gradient"] = _gradient_off(mine[1], expected[1], part)
    limits = _limits(ran)
    note = f"relative to FP64 on the CPU, one pair of {PARITY_SIDE}x{PARITY_SIDE} pixels, as {ran}"
    return check(limits, found, within(limits, found), note)


def _as_declared(session: Session, ran: str) -> Check:
    """The first step of the program that is timed against the declared one.

    That takes the images in the declared orders, cropped and flipped by the reference of `workloads`, and
    makes both parts' gradients apart; those of the program are read back from what Adam made of them. The
    program does not say the discriminators' loss.
    """
    made, plan = session.training, session.plan
    arrays = nets.placed(session.weights, channels_last=plan.how.channels_last)
    made.carry = translation.first_carry(plan, arrays, session.device)
    made.begun, made.epoch, made.step_number = False, 0, 0
    losses, expected = _differentiated(session, plan, _first_pair(session, plan.batch), session.device)
    made.compile()
    made.step()
    share = 1 - plan.recipe.beta1  # of the gradient that the first moment is after one step
    gradient = {name: np.asarray(m, np.float64) / share for name, m in made.carry["m"].items()}
    found = {"generators_loss": abs(made.losses()[-1] / losses["generators"] - 1)}
    found |= {f"{part}_gradient": _gradient_off(gradient, expected, part) for part in PARTS}
    limits = {name: limit for name, limit in _limits(ran).items() if name in found}
    note = f"relative to the declared step, {plan.batch} pairs, as {ran}"
    return check(limits, found, within(limits, found), note)


def _differentiated(
    session: Session, plan: Plan, pair: Pair, device: jax.Device
) -> tuple[dict[str, float], dict[str, Host]]:
    """(loss of either part, gradients by tensor in FP64 on the host) of a first step's two halves."""
    arrays = nets.placed(session.weights, channels_last=plan.how.channels_last)
    params = {name: jax.device_put(array.astype(plan.dtype), device) for name, array in arrays.items()}
    a, b = jax.device_put(pair, device)

    def generators(params: Any, a: Any, b: Any) -> Any:
        return translation.generator_gradients(plan, params, a, b)

    def discriminators(params: Any, *images: Any) -> Any:
        return translation.discriminator_gradients(plan, params, *images)

    loss, found, *fakes = jax.jit(generators)(params, a, b)
    shown = [_shown(plan, domain, np.asarray(fake)) for domain, fake in enumerate(fakes)]
    judged, theirs = jax.jit(discriminators)(params, a, b, *jax.device_put(shown, device))
    gradients: dict[str, Host] = {name: np.asarray(g, np.float64) for name, g in {**found, **theirs}.items()}
    return {"generators": float(loss), "discriminators": float(judged)}, gradients


def _shown(plan: Plan, domain: int, made: Host) -> Host:
    """What a pool that was empty gives back for the first images that it is asked with."""
    size, kept, given = plan.recipe.pool or 0, list[Host](), list[Host]()
    for image, (swap, slot) in zip(
        made, cyclegan.pool_draws(plan.seed, domain, 0, len(made), size), strict=True
    ):
        back = image
        if len(kept) < size:
            kept.append(image)
        elif size and swap:
            back, kept[slot] = kept[slot], image
        given.append(back)
    return np.stack(given)


def _first_pair(session: Session, n: int) -> Pair:
    """The first images of either domain as a step has to get them."""
    last = session.plan.how.channels_last
    a, b = (declared_batch(split, n, channels_last=last)[0] for split in session.train)
    return a, b


def _cut(images: Host, plan: Plan) -> Host:
    """The middle of PARITY_SIDE pixels."""
    rows = 1 if plan.how.channels_last else 2
    first = (images.shape[rows] - PARITY_SIDE) // 2
    middle = slice(first, first + PARITY_SIDE)
    return np.ascontiguousarray(images[(slice(None),) * rows + (middle, middle)])


def _gradient_off(mine: Mapping[str, Host], expected: Mapping[str, Host], part: str) -> float:
    chosen = translation.of_nets(expected, PARTS[part])
    return off(*(np.concatenate([g[name].ravel() for name in chosen]) for g in (mine, expected)))


def _limits(ran: str) -> dict[str, float]:
    each = parity_limits(ran, residual=True)
    return {f"{part}_{name}": each[name] for name in each for part in PARTS}


def _weights_move(session: Session) -> Check:
    """One real step changes each of the four nets."""
    before = {name: np.array(value) for name, value in session.training.carry["params"].items()}
    session.training.step()
    after = session.training.carry["params"]
    moved = [net for net in cyclegan.NETS if _moved(translation.of_nets(before, (net,)), after)]
    return equal(list(cyclegan.NETS), moved)


def _moved(before: Mapping[str, Host], after: Mapping[str, Any]) -> bool:
    return any(not np.array_equal(old, np.asarray(after[name])) for name, old in before.items())
