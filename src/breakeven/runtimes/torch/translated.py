"""CycleGAN built as a case of training, and what it hands to the timing loop.

Knows nothing about clocks, files of results or other processes.
"""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from breakeven.errors import Mismatch, Unsupported
from breakeven.records.case import Case
from breakeven.runtimes import Evaluation, Prepared
from breakeven.runtimes.torch import input, nets, place, precision, profile, state, translation_checks
from breakeven.runtimes.torch.driven import noting
from breakeven.runtimes.torch.session import loading, memory_format, observe_net, set_up
from breakeven.runtimes.torch.training import Plan, Training, resolved
from breakeven.runtimes.torch.translation import Domains, Four, alternating
from breakeven.workloads import cyclegan, models, splits, weights
from breakeven.workloads.layers import Model
from breakeven.workloads.splits import Split


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A case built. `train`: of A and of B; `test`: of A, which is what a generator is given."""

    case: Case
    device: torch.device
    whole: Model
    first_weights: weights.Weights
    train: tuple[Split, Split]
    test: Split
    batches: Domains
    training: Training


def build(case: Case, *, dtype: torch.dtype = torch.float32) -> Session:
    """Builds the case. Raises Unsupported where this machine lacks what it needs.

    With `dtype` float64 (for parity) only the training functions are of use.
    """
    work, tuning = case.work, case.tuning
    assert work.recipe is not None
    device = place.resolve(case.device)
    set_up(case, device)
    *train, test = splits.of_domains(work)
    pairs = min(split.n for split in train)
    if pairs < work.batch:
        raise Unsupported(f"batch {work.batch} is larger than the {pairs} pairs of {work.data}")
    whole = models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    first = cyclegan.first_weights(whole, work.seed)
    layout = memory_format(case)
    four = Four(whole, first, work.recipe, work.seed).to(device=device, dtype=dtype, memory_format=layout)
    plan = Plan(
        recipe=work.recipe,
        seed=work.seed,
        shape=(work.batch, *work.input_shape),
        steps_per_epoch=pairs // work.batch,
        precision=tuning.precision,
        optimizer_impl=tuning.optimizer_impl or "auto",
        loss_every_step=tuning.loss_sync != "epoch",
        memory_format=layout,
    )
    how = loading(case, device, drop_last=True)
    a, b = (input.batches_of(tuning.residency, split, how) for split in train)
    domains = Domains(a=a, b=b, dtype=dtype)
    made = alternating(plan, four, domains, device, tuning.compile_mode)
    return Session(
        case=case,
        device=device,
        whole=whole,
        first_weights=first,
        train=(train[0], train[1]),
        test=test,
        batches=domains,
        training=noting(made) if made.build is not None else made,
    )


def observe(session: Session) -> Mapping[str, Any]:
    """Cheap facts read back. Raises Mismatch if parameters or the last output are on another device."""
    made = session.training
    samples = [split.n for split in session.train]
    return observe_net(made.net, made.seen, session.device) | {
        "autocast": precision.autocast_dtype(session.case.tuning.precision),
        "optimizer_impl": resolved(made.optimizer),
        "domain_samples": samples,
        # Of the larger domain others are left out each epoch.
        "tail_dropped_samples": min(samples) % session.case.work.batch,
    }


def handed_over(session: Session) -> Prepared:
    case, device, made = session.case, session.device, session.training
    evaluate, close_test = _evaluator(session)

    def close() -> None:
        session.batches.close()
        close_test()
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()

    observed = partial(observe, session)
    return Prepared(
        step=made.step,
        sync=place.sync_of(device),
        samples_per_step=case.work.batch,
        steps_per_epoch=min(split.n for split in session.train) // case.work.batch,
        next_epoch=made.next_epoch,
        evaluate=evaluate,
        losses=made.losses,
        checks=lambda: translation_checks.run(session, evaluate, observed),
        observed=observed,
        counters=place.counters,
        memory=partial(place.memory, device),
        reset_memory=partial(place.reset_memory, device),
        save=partial(state.save, made),
        restore=partial(state.restore, made),
        export=partial(_generator_weights, made),
        close=close,
        hashes=_hashes(session),
        parameters=nets.parameter_count(made.net),
        eval_samples=session.test.n,
        device_span=place.span_of(device),
        profile=partial(profile.profiled, made.step, place.sync_of(device), device),
        build=made.build,
        nulls={"phases": "two updates take turns: forward, backward and optimizer come twice"},
    )


def _evaluator(session: Session) -> tuple[Callable[[int | None], Evaluation], Callable[[], None]]:
    """(evaluate, close): A's test images translated by g_ab. Nobody knows the right answer: no score."""
    opened: list[input.Batches] = []
    net, device = session.training.net, session.device
    generator = net.get_submodule(cyclegan.GENERATORS[0])

    def evaluate(n: int | None) -> Evaluation:
        if not opened:
            how = loading(session.case, device, drop_last=False)
            opened.append(input.batches_of(session.case.tuning.residency, session.test, how))
        net.eval()
        try:
            with torch.inference_mode():
                return translate(opened[0], n)
        finally:
            net.train()
            place.sync_of(device)()

    def translate(batches: input.Batches, n: int | None) -> Evaluation:
        batches.begin(0, 0)
        steps = samples = 0
        while n is None or steps < n:
            try:
                images, _ = batches.next()
            except StopIteration:
                break
            with precision.autocast(session.case.tuning.precision, device):
                output = generator(images)
            if output.requires_grad or generator.training:
                raise Mismatch("invalid", "evaluation ran in training mode or built an autograd graph")
            steps, samples = steps + 1, samples + len(images)
        return Evaluation(steps=steps, samples=samples)

    def close() -> None:
        for batches in opened:
            batches.close()
        opened.clear()

    return evaluate, close


def _generator_weights(made: Training) -> Mapping[str, Any]:
    """The generator from A to B by the names of the declared layers: what inference is given."""
    net = made.net.get_submodule(cyclegan.GENERATORS[0])
    stored = net.state_dict()
    return {name: stored[name].detach().float().cpu().numpy() for name in nets.declared_state(net)}


def _hashes(session: Session) -> dict[str, str]:
    stored = session.training.net.state_dict()
    # Read back from the device, as in `prepared`.
    started = weights.weights_hash({name: stored[name].cpu().numpy() for name in session.first_weights})
    return {"weights": started, **splits.hashes(session.train)}
