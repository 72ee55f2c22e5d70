"""CycleGAN built as a case of training: its data of two domains, its nets, and how they are evaluated.

Knows nothing about checks or the protocol of runtimes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from breakeven.errors import Unsupported
from breakeven.records.case import Case
from breakeven.runtimes import Evaluation
from breakeven.runtimes.tensorflow import input, place, precision
from breakeven.runtimes.tensorflow.library import tf
from breakeven.runtimes.tensorflow.session import Session, observe, plan_of, set_up
from breakeven.runtimes.tensorflow.training import driven
from breakeven.runtimes.tensorflow.translation import alternating, four, paired
from breakeven.workloads import cyclegan, models, splits


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
    plan = plan_of(case, device, samples=pairs, fp64=fp64)
    with tf.device(device):
        nets = four(whole, first, policy)
    how = input.loading_of(case, device, drop_last=True)
    source = paired(*(input.source_of(tuning.residency, split, how) for split in (a, b)))
    return Session(
        case=case,
        device=device,
        policy=policy,
        model=whole,
        first_weights=first,
        train=(a, b),
        test=test,
        training=alternating(plan, nets, source),
    )


def observe_pairs(session: Session) -> Mapping[str, Any]:
    """As `session.observe`, and how many samples either domain has."""
    return {**observe(session), "domain_samples": [split.n for split in session.train]}


def evaluator(session: Session) -> tuple[Callable[[int | None], Evaluation], Callable[[], None]]:
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
