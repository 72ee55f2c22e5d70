"""Deep checks that CycleGAN's step is what its case says: device, precision, parameters, first step, formula.

Knows nothing about time. Slow, and it takes training steps: for a process of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.runtimes import Evaluation, bits
from breakeven.runtimes.checks import Check, Told, check, equal, gathered, native, relative_l2
from breakeven.runtimes.tensorflow import place, precision
from breakeven.runtimes.tensorflow.checks import batches, placed, update
from breakeven.runtimes.tensorflow.library import tf
from breakeven.runtimes.tensorflow.nets import channels_first
from breakeven.runtimes.tensorflow.session import Session
from breakeven.runtimes.tensorflow.training import driven
from breakeven.runtimes.tensorflow.translation import (
    discriminator_gradients,
    four,
    generator_gradients,
    weights_of,
)
from breakeven.workloads import cyclegan, reference
from breakeven.workloads.costs import trained_parameter_count
from breakeven.workloads.layers import Model
from breakeven.workloads.tolerances import OUTPUT_ERROR, parity_limits, within

PARITY_SIDE = 64
"""Extents of the images compared with FP64, cut from real ones, at most."""

PROBED = (cyclegan.GENERATORS[0], cyclegan.DISCRIMINATORS[0])
"""One net of each kind."""

Image = NDArray[np.float32]


def run(
    session: Session,
    evaluate: Callable[[int | None], Evaluation],
    observed: Callable[[], Mapping[str, Any]],
) -> dict[str, Check]:
    """All checks by name. Raises Mismatch at the first that shows another device, precision or output."""
    return gathered(_checks(session, evaluate, observed))


def _checks(
    session: Session,
    evaluate: Callable[[int | None], Evaluation],
    observed: Callable[[], Mapping[str, Any]],
) -> Iterator[Told]:
    case, made = session.case, session.training
    asked, on_cpu = case.tuning.precision, case.device.kind == "cpu"
    held = sum(int(np.prod(w.shape)) for optimizer in made.optimizers for w in optimizer.trained)
    yield "parameters", "invalid", equal(trained_parameter_count(session.model), held)
    yield native(asked, precision.hardware(asked, on_cpu))
    with tf.device(session.device):
        probed = _probed(session)
        names = {net: found["precision"] for net, found in probed.items()}
        note = "of one convolution each; transposed ones are not probed"
        yield "precision", "precision_mismatch", check(asked, probed, bits.same(asked, names), note)
        ran = bits.roughest(names)
        yield "output", "output_mismatch", _output(session, ran)
        yield "one_step_parity", "output_mismatch", _parity(session, ran)
        for name, optimizer in zip(("generators", "discriminators"), made.optimizers, strict=True):
            yield f"update_of_{name}", "output_mismatch", update(made, optimizer)
    for domain, split in zip("ab", session.train, strict=True):
        yield f"batches_of_{domain}", "output_mismatch", batches(case, session.device, split)
    yield "weights_move", "invalid", _weights_move(session)
    yield "evaluation", "invalid", _untouched(session, evaluate)
    facts = observed()  # raises Mismatch if variables or the loss are elsewhere
    yield "device", "device_mismatch", equal(place.device_label(case.device), facts["output_device"])


def _probed(session: Session) -> dict[str, dict[str, Any]]:
    """Bits that the costliest convolution of a generator and of a discriminator keeps at its real shape."""
    declared, batch = cyclegan.nets(session.model), session.case.work.batch
    return {
        net: precision.probes(declared[net], batch, policy=session.policy, xla=session.xla)["conv"]
        for net in PROBED
    }


def _patches(session: Session) -> tuple[Model, list[Image]]:
    """The nets for small images, and one of each domain [1, C, H, W]: the middle of a training image."""
    channels, height, width = session.model.input_shape
    side = min(PARITY_SIDE, height, width)
    top, left = (height - side) // 2, (width - side) // 2
    small = replace(session.model, input_shape=(channels, side, side))
    images = [split.first(1)[0][:, :, top : top + side, left : left + side] for split in session.train]
    return small, images


def _output(session: Session, ran: str) -> Check:
    """What a generator and a discriminator make of a patch, against FP64 of the declared layers in NumPy."""
    whole, (patch, _) = _patches(session)
    nets, declared = four(whole, session.first_weights, session.policy), cyclegan.nets(whole)

    def error(name: str) -> float:
        run = driven(lambda x: nets[name](x, training=False), session.case.tuning.execution)
        made = channels_first(tf.cast(run(placed(patch)), tf.float64).numpy())
        own = cyclegan.part(session.first_weights, name)
        return relative_l2(made, reference.logits(declared[name], own, patch))

    found, limits = {name: error(name) for name in PROBED}, dict.fromkeys(PROBED, OUTPUT_ERROR[ran])
    note = f"relative L2 against FP64 of the declared layers, {_size(patch)}, as {ran}"
    return check(limits, found, within(limits, found), note)


def _parity(session: Session, ran: str) -> Check:
    """Losses and gradients of a first step against FP64 on the CPU: same weights, same images."""
    whole, patches = _patches(session)
    here = _step(session, whole, session.policy, session.case.tuning.execution, patches)
    with tf.device("/device:CPU:0"):
        there = _step(session, whole, precision.FP64, "eager", patches)
    found, limits = dict[str, float](), dict[str, float]()
    each = parity_limits(ran, residual=True)
    for name, mine, exact in zip(("generators", "discriminators"), here, there, strict=True):
        found[f"{name}_loss"] = abs(mine[0] / exact[0] - 1)
        found[f"{name}_gradient"] = relative_l2(mine[1], exact[1])
        limits |= {f"{name}_{what}": limit for what, limit in each.items()}
    note = f"relative to FP64 on the CPU, one pair of {_size(patches[0])}, as {ran}"
    return check(limits, found, within(limits, found), note)


def _step(
    session: Session, whole: Model, policy: str, execution: str, patches: list[Image]
) -> list[tuple[float, NDArray[np.float64]]]:
    """(loss, all gradients) of either half of a first step of nets of its own; pools are empty then."""
    recipe, nets = session.training.plan.recipe, four(whole, session.first_weights, policy)
    kind = "float64" if policy == precision.FP64 else "float32"

    def both(a: Any, b: Any) -> tuple[Any, ...]:
        loss, found, fake_a, fake_b = generator_gradients(nets, recipe, a, b)
        return (loss, found), discriminator_gradients(nets, a, b, fake_a, fake_b)

    made = driven(both, execution)(*(placed(patch, kind) for patch in patches))
    return [
        (float(loss), np.concatenate([tf.cast(g, tf.float64).numpy().ravel() for g in found]))
        for loss, found in made
    ]


def _size(patch: Image) -> str:
    return f"{patch.shape[2]}x{patch.shape[3]} pixels"


def _weights_move(session: Session) -> Check:
    """One real step changes each of the four nets."""
    before = weights_of(session.training.nets)
    session.training.step()
    after = weights_of(session.training.nets)
    moved = {name.split(".")[0] for name, old in before.items() if not np.array_equal(old, after[name])}
    return equal(list(cyclegan.NETS), [name for name in cyclegan.NETS if name in moved])


def _untouched(session: Session, evaluate: Callable[[int | None], Evaluation]) -> Check:
    """Translating test images changes nothing that training changes."""
    before = [variable.numpy() for variable in session.training.state]
    evaluate(1)
    after = [variable.numpy() for variable in session.training.state]
    same = all(np.array_equal(old, new) for old, new in zip(before, after, strict=True))
    return equal("nothing changes", "nothing changes" if same else "some variables change")
