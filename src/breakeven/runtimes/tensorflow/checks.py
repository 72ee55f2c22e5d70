"""Deep checks that what runs is what the case says: device, precision, parameters, first step, formula.

Knows nothing about time. Slow, and it takes training steps: for a process of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.records.case import Case, Recipe
from breakeven.runtimes import Evaluation, bits
from breakeven.runtimes.checks import Check, Told, check, decided, equal, gathered, native, relative_l2, turn
from breakeven.runtimes.tensorflow import input, nets, place, precision
from breakeven.runtimes.tensorflow.library import tf
from breakeven.runtimes.tensorflow.session import Session
from breakeven.runtimes.tensorflow.training import Adam, Training, driven, gradients
from breakeven.workloads import data, reference
from breakeven.workloads.costs import parameter_count
from breakeven.workloads.order import apply_augmentation
from breakeven.workloads.schedule import learning_rate
from breakeven.workloads.splits import Split
from breakeven.workloads.tolerances import DAMPING, OUTPUT_ERROR, PARITY_BATCH, SCALE, parity_limits
from breakeven.workloads.weights import Weights, damped

OUTPUT_IMAGES = 4
"""Images whose scores are compared with FP64 in NumPy, few enough for it."""

BATCHES = 1e-6
"""Largest difference between a normalised pixel and the declared one: some last places of float32."""

FORMULA = 1e-4
"""Relative L2 of an update against the recipe's formula in FP64 from the same gradients."""


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
    asked, on_cpu = session.case.tuning.precision, session.case.device.kind == "cpu"
    held = sum(int(np.prod(variable.shape)) for variable in session.training.net.trained)
    yield "parameters", "invalid", equal(parameter_count(session.model), held)
    yield native(asked, precision.hardware(asked, on_cpu))
    with tf.device(session.device):
        probed = precision.probes(
            session.model, session.case.work.batch, policy=session.policy, xla=session.xla
        )
        names = {kind: found["precision"] for kind, found in probed.items()}
        yield "precision", "precision_mismatch", check(asked, probed, bits.agrees(asked, names))
        ran = bits.roughest(names)
        yield "output", "output_mismatch", _output(session, ran)
        yield "one_step_parity", "output_mismatch", _parity(session, ran)
        yield "update", "output_mismatch", update(session.training, session.training.optimizers[0])
    yield "batches", "output_mismatch", batches(session.case, session.device, session.train[0])
    yield "moves", "invalid", _untouched(session, evaluate)
    facts = observed()  # raises Mismatch if variables or the loss are elsewhere
    label = place.device_label(session.case.device)
    yield "device", "device_mismatch", equal(label, facts["output_device"])


def placed(images: NDArray[np.float32], kind: str = "float32") -> Any:
    return tf.constant(nets.channels_last(images), kind)


def _output(session: Session, ran: str) -> Check:
    """Scores of the net as built, in inference, against FP64 of the declared layers in NumPy."""
    weights = damped(session.model, session.first_weights, DAMPING)
    net = nets.build(session.model, weights, session.policy)
    images, _ = session.train[0].first(OUTPUT_IMAGES)
    run = driven(lambda x: net(x, training=False), session.case.tuning.execution)
    found = tf.cast(run(placed(images)), tf.float64).numpy()
    error = relative_l2(found, reference.logits(session.model, weights, images))
    note = (
        f"relative L2 of the scores of {OUTPUT_IMAGES} images against FP64 of the declared layers, as {ran}"
    )
    return check(OUTPUT_ERROR[ran], error, error <= OUTPUT_ERROR[ran], note)


def _parity(session: Session, ran: str) -> Check:
    """Loss and gradients of a first step against FP64 on the CPU: same weights, same samples."""
    weights = damped(session.model, session.first_weights, DAMPING)

    def sampled(draw: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        return session.train[0].untied(PARITY_BATCH, draw).first(PARITY_BATCH)

    def exact(draw: int, weights: Weights) -> tuple[float, NDArray[np.float64]]:
        with tf.device("/device:CPU:0"):
            return _step(session, weights, precision.FP64, "eager", *sampled(draw))

    def compared(draw: int) -> Mapping[str, float]:
        here = _step(session, weights, session.policy, session.case.tuning.execution, *sampled(draw))
        there = exact(draw, weights)
        return {"loss": abs(here[0] / there[0] - 1), "gradient": relative_l2(here[1], there[1])}

    limits = parity_limits(ran, residual=weights is not session.first_weights)
    note = f"relative to FP64 on the CPU, batch {PARITY_BATCH}, as {ran}"
    return decided(limits, compared, lambda draw: turn(lambda w: exact(draw, w)[1], weights), note)


def _step(
    session: Session,
    weights: Weights,
    policy: str,
    execution: str,
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
) -> tuple[float, NDArray[np.float64]]:
    """(loss, all gradients) of a step of a net of its own, driven as said."""
    net = nets.build(session.model, weights, policy)
    kind = "float64" if policy == precision.FP64 else "float32"
    step = driven(lambda x, y: gradients(net, x, y, scale=SCALE), execution)
    loss, found = step(placed(images, kind), tf.constant(labels))
    flat = np.concatenate([tf.cast(g, tf.float64).numpy().ravel() for g in found])
    return float(loss), flat / SCALE


def update(made: Training, optimizer: Adam) -> Check:
    """Two steps of an optimizer, by the recipe's formula in FP64 and as the case runs it.

    Two: the first of Adam is much the same wherever epsilon stands.
    """
    recipe = made.plan.recipe
    before = [w.numpy().astype(np.float64) for w in optimizer.trained]
    changed = (*optimizer.trained, *optimizer.state)
    state = [variable.numpy() for variable in changed]
    optimizer.rate.assign(learning_rate(recipe, 0))
    for variable in (*optimizer.first, *optimizer.second):
        variable.assign(tf.zeros_like(variable))
    for power in optimizer.powers:
        power.assign(1.0)
    drawn = np.random.Generator(np.random.Philox(0))
    # From far below epsilon to far above it.
    given = [
        [
            (drawn.uniform(-1, 1, w.shape) * 10.0 ** drawn.uniform(-10, -2, w.shape)).astype(np.float32)
            for w in before
        ]
        for _ in range(2)
    ]
    apply = driven(lambda *found: optimizer.apply(found), made.plan.execution)
    for found in given:
        apply(*(tf.constant(g, w.dtype) for g, w in zip(found, optimizer.trained, strict=True)))
    moved = _flat(w.numpy() - old for w, old in zip(optimizer.trained, before, strict=True))
    expected = _flat(
        adam(recipe, old, [step[index].astype(np.float64) for step in given]) - old
        for index, old in enumerate(before)
    )
    for variable, value in zip(changed, state, strict=True):
        variable.assign(value)
    error, limit = relative_l2(moved, expected), FORMULA
    return check(
        limit, error, error <= limit, "relative L2 of two updates against the recipe's formula in FP64"
    )


def adam(
    recipe: Recipe, weights: NDArray[np.float64], given: list[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Kingma and Ba 2015, algorithm 1, one step for each of the gradients `given`."""
    m, v = np.zeros_like(weights), np.zeros_like(weights)
    for t, g in enumerate(given, start=1):
        g = g + recipe.weight_decay * weights
        m = recipe.beta1 * m + (1 - recipe.beta1) * g
        v = recipe.beta2 * v + (1 - recipe.beta2) * g * g
        mhat, vhat = m / (1 - recipe.beta1**t), v / (1 - recipe.beta2**t)
        weights = weights - recipe.lr * mhat / (np.sqrt(vhat) + recipe.eps)
    return weights


def _flat(arrays: Iterator[NDArray[Any]]) -> NDArray[np.float64]:
    return np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])


def batches(case: Case, device: str, split: Split) -> Check:
    """The first batch as the case makes it against the declared crops and flips of the declared order."""
    source = input.source_of(case.tuning.residency, split, input.loading_of(case, device, drop_last=True))
    source.begin(0, 0)
    take = driven(source.take, case.tuning.execution)
    with tf.device(device):
        images, labels = (tensor.numpy() for tensor in take(*source.next()))
    source.close()
    rows, table = split.order(0)[: case.work.batch], split.offsets(0)
    pixels = split.data.images[rows]
    declared = pixels if table is None else apply_augmentation(pixels, table[rows])
    expected = nets.channels_last(data.normalized(split.known, declared))
    error = float(np.abs(images - expected).max())
    right = bool(np.array_equal(labels, split.data.labels[rows]))
    return check(
        BATCHES, error if right else "other labels", right and error <= BATCHES, "largest difference"
    )


def _untouched(session: Session, evaluate: Callable[[int | None], Evaluation]) -> Check:
    """One real step of this case moves the weights, and an evaluation after it moves nothing."""
    first = [w.numpy() for w in session.training.optimizers[0].trained]
    session.training.step()
    moved = sum(
        not np.array_equal(old, w.numpy())
        for old, w in zip(first, session.training.optimizers[0].trained, strict=True)
    )
    after = [variable.numpy() for variable in session.training.state]
    evaluate(1)
    last = [variable.numpy() for variable in session.training.state]
    same = all(np.array_equal(a, b) for a, b in zip(after, last, strict=True))
    found = (
        f"{moved} of {len(first)} tensors moved by a step, " + ("none" if same else "some") + " by scoring"
    )
    return check("a step moves weights, scoring nothing", found, moved > 0 and same)
