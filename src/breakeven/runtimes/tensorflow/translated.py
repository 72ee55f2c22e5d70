"""CycleGAN built as a case of training, and what it hands to the timing loop.

Knows nothing about clocks, files of results or other processes.
"""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from breakeven.errors import Unsupported
from breakeven.records.case import Case
from breakeven.runtimes import Evaluation, Prepared
from breakeven.runtimes.tensorflow import input, place, precision, profile, state, translation_checks
from breakeven.runtimes.tensorflow.library import tf
from breakeven.runtimes.tensorflow.session import observe_training, set_up
from breakeven.runtimes.tensorflow.training import Plan, Training, driven, traces
from breakeven.runtimes.tensorflow.translation import alternating, four, paired, weights_of
from breakeven.workloads import cyclegan, models, splits, weights
from breakeven.workloads.costs import trained_parameter_count
from breakeven.workloads.layers import Model
from breakeven.workloads.splits import Split


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A case built. `train`: of A and of B; `test`: of A, which is what a generator is given."""

    case: Case
    device: str
    policy: str
    whole: Model
    first_weights: weights.Weights
    train: tuple[Split, Split]
    test: Split
    training: Training

    @property
    def xla(self) -> bool:
        return self.case.tuning.execution == "xla"


def build(case: Case, *, fp64: bool = False) -> Session:
    """Builds the case. Raises Unsupported where this machine lacks what it needs.

    With `fp64` (for parity) only the training functions are of use.
    """
    work, tuning = case.work, case.tuning
    assert work.recipe is not None  # `supports` has asked
    device = set_up(case)
    a, b, test = splits.of_domains(work)
    pairs = min(a.n, b.n)
    if pairs < work.batch:
        raise Unsupported(f"batch {work.batch} is larger than the {pairs} pairs of {work.data}")
    whole = models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    first = cyclegan.first_weights(whole, work.seed)
    policy = precision.FP64 if fp64 else precision.policy_of(tuning.precision, "train")
    channels, height, width = work.input_shape
    plan = Plan(
        recipe=work.recipe,
        seed=work.seed,
        shape=(work.batch, height, width, channels),
        steps_per_epoch=pairs // work.batch,
        execution=tuning.execution,
        loss_every_step=tuning.loss_sync != "epoch",
        device=device,
        dtype="float64" if fp64 else "float32",
    )
    with tf.device(device):
        nets = four(whole, first, policy)
    how = input.loading_of(case, device, drop_last=True)
    source = paired(*(input.source_of(tuning.residency, split, how) for split in (a, b)))
    return Session(
        case=case,
        device=device,
        policy=policy,
        whole=whole,
        first_weights=first,
        train=(a, b),
        test=test,
        training=alternating(plan, nets, source),
    )


def observe(session: Session) -> Mapping[str, Any]:
    """Cheap facts read back. Raises Mismatch if variables or the last loss are on another device."""
    samples = [split.n for split in session.train]
    return observe_training(session.training, session.case, session.policy) | {
        "domain_samples": samples,
        # Of the larger domain others are left out each epoch.
        "tail_dropped_samples": min(samples) % session.case.work.batch,
    }


def handed_over(session: Session) -> Prepared:
    case, made = session.case, session.training
    evaluate, close_test = _evaluator(session)
    observed = partial(observe, session)

    def close() -> None:
        made.source.close()
        close_test()
        gc.collect()

    # Read back from the device: what the nets start from, not what they were meant to start from.
    started = weights.weights_hash(weights_of(made.nets))
    eager = case.tuning.execution == "eager"
    taken = "forward, backward and optimizer come twice"
    return Prepared(
        step=made.step,
        sync=place.sync_of(case.device),
        samples_per_step=case.work.batch,
        steps_per_epoch=made.plan.steps_per_epoch,
        next_epoch=made.next_epoch,
        evaluate=evaluate,
        losses=made.losses,
        checks=lambda: translation_checks.run(session, evaluate, observed),
        observed=observed,
        counters=lambda: {"tf_traces": traces(made.program)},
        memory=partial(place.memory, case.device),
        reset_memory=partial(place.reset_memory, case.device),
        save=partial(state.save, made),
        restore=partial(state.restore, made),
        export=made.net.weights,
        close=close,
        hashes={"weights": started, **splits.hashes(session.train)},
        parameters=trained_parameter_count(session.whole),
        eval_samples=session.test.n,
        build=None if eager else made.build,
        profile=partial(profile.profiled, made.step, place.sync_of(case.device), case.device),
        nulls={"phases": f"two updates take turns: {taken}"},
    )


def _evaluator(session: Session) -> tuple[Callable[[int | None], Evaluation], Callable[[], None]]:
    """(evaluate, close): A's test images translated by g_ab. Nobody knows the right answer: no score.

    The last batch is filled up, so that there is one shape, and what fills it is not counted.
    """
    opened: list[tuple[input.Source, Callable[..., Any]]] = []
    case, split, generator = session.case, session.test, session.training.net
    loading = input.loading_of(case, session.device, drop_last=False)

    def opening() -> tuple[input.Source, Callable[..., Any]]:
        source = input.source_of(case.tuning.residency, split, loading)

        def translate(*given: Any) -> Any:
            return generator(source.take(*given)[0], training=False)

        return source, driven(translate, case.tuning.execution)

    def evaluate(n: int | None) -> Evaluation:
        if not opened:
            opened.append(opening())
        source, translate = opened[0]
        steps = loading.steps(split) if n is None else min(n, loading.steps(split))
        source.begin(0, 0)
        with tf.device(session.device):
            for _ in range(steps):
                translate(*source.next())
        place.sync_of(case.device)()
        return Evaluation(steps=steps, samples=min(split.n, steps * case.work.batch))

    def close() -> None:
        for source, _ in opened:
            source.close()
        opened.clear()

    return evaluate, close
