"""Deep checks that what runs is what the case says: device, precision, parameters, FLOPs, first step.

Knows nothing about time. Slow, and it takes training steps: for a process of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from breakeven.runtimes import Evaluation, bits
from breakeven.runtimes.checks import TINY, Check, Told, check, decided, equal, gathered, native, turn
from breakeven.runtimes.torch import nets, precision
from breakeven.runtimes.torch.session import Session, memory_format, open_batches, same_device, trained
from breakeven.runtimes.torch.tokens import Attention
from breakeven.runtimes.torch.training import forward, gradients_by, scaler_for
from breakeven.workloads.costs import forward_flops, parameter_count, training_flops
from breakeven.workloads.layers import normed_away
from breakeven.workloads.tolerances import DAMPING, DRAWS, PARITY, PARITY_BATCH, SCALE, parity_limits
from breakeven.workloads.weights import Weights, damped

FLOP_BATCH = 2
"""Smallest batch that batch norm trains on where only one pixel is left."""

WORST = 0.9
"""Most that one parameter's gradient may be off in any precision: an unrelated one is off by 1 or more."""


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
    net, device, asked = session.training.net, session.device, session.case.tuning.precision
    same_device(net, None, device)
    yield "parameters", "invalid", equal(parameter_count(session.model), nets.parameter_count(net))
    yield native(asked, precision.hardware(asked, device))
    probed = _precision(session)
    yield "precision", "precision_mismatch", probed
    yield "training_flops", "invalid", _flops(session)
    yield "one_step_parity", "output_mismatch", _parity(session, loosest(probed["found"]))
    yield "layout", "invalid", _layout(session)
    if session.case.work.recipe and session.case.work.recipe.accumulation != 1:
        yield "accumulation", "output_mismatch", _accumulation(session, loosest(probed["found"]))
    if session.training.build is not None:
        yield "as_eager", "output_mismatch", _as_eager(session, loosest(probed["found"]))
        session.training.build()
    yield "weights_move", "invalid", _weights_move(session)
    evaluate(1)  # raises Mismatch itself if it builds a graph or runs in training mode
    yield "evaluation", "invalid", equal("inference mode", "inference mode")
    facts = observed()  # raises Mismatch if parameters or output are elsewhere
    yield "device", "device_mismatch", equal(str(device), facts["output_device"])


def _precision(session: Session) -> Check:
    """Bits that the costliest convolution, matrix product and attention keep at their real shapes."""
    asked, device = session.case.tuning.precision, session.device
    found: dict[str, dict[str, Any]] = {}
    for name, (module, shape) in _costliest(session).items():
        if name == "attention":
            found[name] = precision.probe_attention(module, shape, precision=asked, device=device)
        else:
            found[name] = precision.probe(
                module, shape, precision=asked, device=device, memory_format=memory_format(session.case)
            )
    names = {name: probed["precision"] for name, probed in found.items()}
    return check(asked, found, bits.agrees(asked, names))


def _costliest(session: Session) -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """The layer of each kind with the most FLOPs, with the input shape it gets in this case."""
    inputs: dict[str, dict[int, tuple[nn.Module, tuple[int, ...]]]] = {}

    def note(module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        cost = output[0].numel() * (1 if isinstance(module, Attention) else module.weight[0].numel())
        here = module, (session.case.work.batch, *args[0].shape[1:])
        inputs.setdefault(str(_product(module)), {})[cost] = here

    net = _fresh(session)
    hooks = [m.register_forward_hook(note) for m in net.modules() if _product(m)]
    with torch.inference_mode():
        net.eval()(_sample(session, 1)[0].to(session.device))
    for hook in hooks:
        hook.remove()
    return {kind: costs[max(costs)] for kind, costs in inputs.items()}


def _product(module: nn.Module) -> str | None:
    """The name that the probe of such a layer has in the check; None for a layer without products."""
    kinds = {"conv": nn.Conv2d, "matmul": nn.Linear, "attention": Attention}
    return next((name for name, kind in kinds.items() if isinstance(module, kind)), None)


def _flops(session: Session) -> Check:
    """torch's own count of forward and backward against the analytic one that all findings use.

    Attention runs as plain products here: torch counts none for the CPU's fused kernel, and for CUDA's also
    the scores that they compute again.
    """
    net = _fresh(session)
    images, labels = (t.to(session.device) for t in _sample(session, FLOP_BATCH))
    if any(isinstance(module, nn.Conv2d) and module.groups != 1 for module in net.modules()):
        # Backward, torch 2.13 counts the weights of a grouped convolution as if all channels met all others.
        with FlopCounterMode(display=False) as counter:
            forward(net, images, labels, session.case.tuning.precision)
        asked = FLOP_BATCH * forward_flops(session.model)
        return equal(asked, counter.get_total_flops(), f"forward alone, batch {FLOP_BATCH}")
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        loss, _ = forward(net, images, labels, session.case.tuning.precision)
        loss.backward()
    asked = training_flops(session.model, FLOP_BATCH)
    return equal(asked, counter.get_total_flops(), f"forward and backward, batch {FLOP_BATCH}")


def loosest(probed: Mapping[str, Mapping[str, Any]]) -> str:
    """The roughest precision that the probes found: what parity can be held to."""
    return bits.roughest({name: result["precision"] for name, result in probed.items()})


def _parity(session: Session, ran: str) -> Check:
    """Loss and gradients of a first step against FP64 on the CPU: same weights, same samples."""
    weights = _damped(session)

    def sampled(draw: int) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = session.train.untied(PARITY_BATCH, draw).first(PARITY_BATCH)
        return torch.from_numpy(images), torch.from_numpy(labels)

    def exact(draw: int, weights: Weights) -> tuple[float, torch.Tensor]:
        net, (images, labels) = nets.build(session.model, weights).double(), sampled(draw)
        loss, _ = forward(net, images.double(), labels, "default")
        (loss * SCALE).backward()
        return loss.item(), _gradients(net)

    def compared(draw: int) -> Mapping[str, float]:
        net, (images, labels) = _fresh(session, weights), sampled(draw)
        here = images.to(session.device), labels.to(session.device)
        loss, output = forward(net, *here, session.case.tuning.precision)
        (loss * SCALE).backward()
        same_device(net, output, session.device)
        reference, expected = exact(draw, weights)
        return {"loss": abs(loss.item() / reference - 1), "gradient": off(_gradients(net), expected)}

    limits = parity_limits(ran, residual=weights is not session.first_weights)
    note = f"relative to FP64 on the CPU, batch {PARITY_BATCH}, as {ran}"
    return decided(limits, compared, lambda draw: turn(lambda w: exact(draw, w)[1].numpy(), weights), note)


def _as_eager(session: Session, ran: str) -> Check:
    """Loss and gradients of a first step, driven as the case says, against the same step run eagerly.

    A compiler may be silently wrong: torch 2.13's made the gradients of three convolutions zero on a CPU.
    `worst` is the parameter that is furthest off, as its size may hide it among the others, of those that
    have a gradient at all. The step is built here as the case's own is, over samples without ties: those of
    the case may be full of them, and the eager step be the one that is off (conv6-seed on `digits`: 7e-3
    from FP64, compiled 3e-5).
    """
    case, device, weights = session.case, session.device, _damped(session)
    assert case.work.recipe is not None
    accumulation = case.work.recipe.accumulation
    split = session.train.untied(case.work.batch * DRAWS)
    net = _fresh(session, weights)
    made, own = trained(case, net, split, device)
    assert made.build is not None
    made.build()
    batches = open_batches(case, split, device, drop_last=True)
    names, lost = [name for name, _ in net.named_parameters()], set(normed_away(session.model.nodes))

    def eager(draw: int, weights: Weights) -> tuple[float, list[torch.Tensor]]:
        batches.begin(0, draw)
        there = _fresh(session, weights)
        scaler = scaler_for(case.tuning.precision, device)
        run = partial(forward, there, precision=case.tuning.precision)
        loss, _ = gradients_by(run, accumulation, scaler)(*batches.next())
        scale = scaler.get_scale() if scaler else 1.0  # stepping takes the factor out again
        return loss.item(), [_gradient(p) / scale for p in there.parameters()]

    def compared(draw: int) -> Mapping[str, float]:
        with torch.no_grad():  # a step before has moved them; `draw` is the number of steps
            for mine, damped in zip(net.parameters(), _fresh(session, weights).parameters(), strict=True):
                mine.copy_(damped)
        made.step()
        expected_loss, expected = eager(draw, weights)
        found = [_gradient(p) for p in net.parameters()]
        return {
            "loss": abs(made.losses()[-1] / expected_loss - 1),
            "gradient": off(torch.cat(found), torch.cat(expected)),
            "worst": max(
                off(a, b) for name, a, b in zip(names, found, expected, strict=True) if name not in lost
            ),
        }

    def turned(draw: int) -> float:
        return turn(lambda w: torch.cat(eager(draw, w)[1]).numpy(), weights)

    limits = parity_limits(ran, residual=weights is not session.first_weights) | {"worst": WORST}
    note = f"relative to the eager step, batch {case.work.batch}, as {ran}"
    told = decided(limits, compared, turned, note)
    for source in (batches, own):
        if source is not None:
            source.close()
    return told


def _accumulation(session: Session, ran: str) -> Check:
    """Gradients of a batch in parts against those of the whole; with batch norm they may differ."""
    work = session.case.work
    assert work.recipe is not None
    images, labels = (t.to(session.device) for t in _sample(session, work.batch))
    made = []
    for parts in (work.recipe.accumulation, 1):
        net = _fresh(session)
        run = partial(forward, net, precision=session.case.tuning.precision)
        gradients_by(run, parts)(images, labels)
        made.append(_gradients(net))
    normed = any(isinstance(m, nn.BatchNorm2d) for m in session.training.net.modules())
    limit, found = PARITY[ran][1], off(*made)
    note = f"batch norm sees {work.batch // work.recipe.accumulation} samples at a time: another training"
    return check(limit, found, normed or found <= limit, note if normed else "relative to the whole batch")


def _gradient(parameter: torch.Tensor) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad.double().cpu().flatten()


def _gradients(net: nn.Module) -> torch.Tensor:
    return torch.cat([_gradient(p) for p in net.parameters()])


def off(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / max(float(expected.norm()), TINY))


def _damped(session: Session) -> Weights:
    """The initial weights with damped residual branches; the very same object for a net without any."""
    return damped(session.model, session.first_weights, DAMPING)


def _layout(session: Session) -> Check:
    """Layout of the last activation: a layer that falls back to the other layout shows."""
    last: list[str] = []

    def note(module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        first, other = output.is_contiguous(), output.is_contiguous(memory_format=torch.channels_last)
        if first != other:
            last[:] = ["channels-first" if first else "channels-last"]

    net = _fresh(session)
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(note)
    images, labels = (t.to(session.device) for t in _sample(session, FLOP_BATCH))
    forward(
        net,
        images.contiguous(memory_format=memory_format(session.case)),
        labels,
        session.case.tuning.precision,
    )
    return equal(session.case.tuning.layout, last[0] if last else session.case.tuning.layout)


def _weights_move(session: Session) -> Check:
    """One real step of this case changes the weights: the optimizer is part of it."""
    before = [p.detach().clone() for p in session.training.net.parameters()]
    session.training.step()
    after = list(session.training.net.parameters())
    moved = sum(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    return check("some", f"{moved} of {len(before)} tensors", moved > 0)


def _fresh(session: Session, weights: Weights | None = None) -> nn.Module:
    """Another net, in training mode: checks leave the case's own alone. The initial weights unless others."""
    net = nets.build(session.model, weights or session.first_weights)
    return net.to(device=session.device, memory_format=memory_format(session.case)).train()


def _sample(session: Session, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first samples of epoch 0 on the CPU, not augmented."""
    images, labels = session.train.first(n)
    return torch.from_numpy(images), torch.from_numpy(labels)
