"""Deep checks that CycleGAN's step is what its case says: device, precision, parameters, FLOPs, first step.

Knows nothing about time. Slow, and it takes training steps: for a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from breakeven.runtimes import Evaluation, bits
from breakeven.runtimes.checks import Check, Told, check, equal, gathered, native
from breakeven.runtimes.torch import input, nets, precision
from breakeven.runtimes.torch.checks import WORST, loosest, off
from breakeven.runtimes.torch.session import loading, memory_format, same_device
from breakeven.runtimes.torch.translation import Four, Nets, discriminator_loss, generator_loss
from breakeven.workloads import cyclegan
from breakeven.workloads.costs import trained_parameter_count, training_flops
from breakeven.workloads.layers import normed_away
from breakeven.workloads.tolerances import parity_limits, within

if TYPE_CHECKING:
    from breakeven.runtimes.torch.translated import Session

PARITY_SIDE = 64
"""Extents of the images compared with FP64, cut from real ones: a step of 128x128 takes two cores 20 s."""


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
    case, net, device = session.case, session.training.net, session.device
    same_device(net, None, device)
    counts = trained_parameter_count(session.whole), nets.parameter_count(net)
    yield "parameters", "invalid", equal(*counts)
    yield native(case.tuning.precision, precision.hardware(case.tuning.precision, device))
    probed = _precision(session)
    yield "precision", "precision_mismatch", probed
    ran = loosest(probed["found"])
    yield "training_flops", "invalid", _flops(session)
    yield "one_step_parity", "output_mismatch", _parity(session, ran)
    if session.training.build is not None:
        session.training.build()
        yield "as_eager", "output_mismatch", _as_eager(session, ran)
    yield "weights_move", "invalid", _weights_move(session)
    evaluate(1)  # raises Mismatch itself if it builds a graph or runs in training mode
    yield "evaluation", "invalid", equal("inference mode", "inference mode")
    facts = observed()  # raises Mismatch if parameters or output are elsewhere
    yield "device", "device_mismatch", equal(str(device), facts["output_device"])
    layout = facts["weights_layout"]
    yield "layout", "invalid", check(case.tuning.layout, layout, layout in (case.tuning.layout, None))


def _precision(session: Session) -> Check:
    """Bits that the costliest convolution of a generator and of a discriminator keeps at its real shape."""
    case, found = session.case, dict[str, dict[str, Any]]()
    for net in (cyclegan.GENERATORS[0], cyclegan.DISCRIMINATORS[0]):
        module, shape = _costliest(session, net)
        found[net] = precision.probe(
            module,
            shape,
            precision=case.tuning.precision,
            device=session.device,
            memory_format=memory_format(case),
        )
    names = {name: probed["precision"] for name, probed in found.items()}
    ok = bits.same(case.tuning.precision, names)
    return check(case.tuning.precision, found, ok, "of one convolution each; transposed ones are not probed")


def _costliest(session: Session, name: str) -> tuple[nn.Module, tuple[int, ...]]:
    best: list[Any] = [0, None, ()]

    def note(module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        cost = output[0].numel() * module.weight[0].numel()
        if cost > best[0]:
            best[:] = cost, module, (session.case.work.batch, *args[0].shape[1:])

    with torch.device("meta"), torch.no_grad():  # shapes only
        net = nets.Net(cyclegan.nets(session.whole)[name])
        for module in net.modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_hook(note)
        net(torch.empty(1, *session.whole.input_shape))
    return best[1], best[2]


def _flops(session: Session) -> Check:
    """torch's own count of a step's two losses, forward and backward, against the analytic one."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        g_ab, g_ba, d_a, d_b = (nets.Net(declared) for declared in cyclegan.nets(session.whole).values())
        real = torch.empty(1, *session.whole.input_shape)
        _gradients(session, (g_ab, g_ba, d_a, d_b), real, real, "default")
    found = counter.get_total_flops()
    return equal(training_flops(session.whole), found, "forward and backward, one pair")


def _gradients(
    session: Session, four: Nets, a: torch.Tensor, b: torch.Tensor, asked: str
) -> tuple[float | None, float | None]:
    """Both losses of a first step, with gradients on every parameter; None where there are no numbers."""
    recipe = session.case.work.recipe
    assert recipe is not None
    judges = nn.ModuleList(four[2:])
    judges.requires_grad_(False)
    loss, fake_a, fake_b = generator_loss(four, recipe, asked, a, b)
    loss.backward()
    judges.requires_grad_(True)
    judged = discriminator_loss(four, asked, a, b, fake_a.detach().to(a.dtype), fake_b.detach().to(b.dtype))
    judged.backward()
    return None if loss.is_meta else loss.item(), None if judged.is_meta else judged.item()


def _fresh(session: Session) -> Four:
    work = session.case.work
    assert work.recipe is not None
    return Four(session.whole, session.first_weights, work.recipe, work.seed)


def _parity(session: Session, ran: str) -> Check:
    """Losses and gradients of a first step against FP64 on the CPU: same weights, same images."""
    layout = memory_format(session.case)
    here = _fresh(session).to(device=session.device, memory_format=layout)
    there = _fresh(session).double()
    pair = [_sample(session, domain) for domain in (0, 1)]
    a, b = (images.to(session.device).contiguous(memory_format=layout) for images in pair)
    losses = _gradients(session, here.nets(), a, b, session.case.tuning.precision)
    exact = _gradients(session, there.nets(), pair[0].double(), pair[1].double(), "default")
    found = _compared(losses, exact, here, there)
    limits = _limits(ran)
    ok = within(limits, found)
    note = f"relative to FP64 on the CPU, one pair of {PARITY_SIDE}x{PARITY_SIDE} pixels, as {ran}"
    return check(limits, found, ok, note)


def _limits(ran: str) -> dict[str, float]:
    each = parity_limits(ran, residual=True)
    return {f"{net}_{name}": each[name] for name in each for net in ("generators", "discriminators")}


def _compared(
    losses: tuple[float | None, ...], exact: tuple[float | None, ...], here: Four, there: Four
) -> dict[str, float]:
    found = {}
    for index, name in enumerate(("generators", "discriminators")):
        loss, expected = losses[index], exact[index]
        assert loss is not None and expected is not None
        found[f"{name}_loss"] = abs(loss / expected - 1)
        mine, theirs = (
            _gradient(nn.ModuleList(four.nets()[2 * index : 2 * index + 2])) for four in (here, there)
        )
        found[f"{name}_gradient"] = off(mine, theirs)
    return found


def _gradient(part: nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.double().cpu().flatten() for p in part.parameters() if p.grad is not None])


def _sample(session: Session, domain: int) -> torch.Tensor:
    """One training image of a domain as a step gets it, its middle of PARITY_SIDE pixels, on the CPU."""
    case = session.case
    how = loading(case, torch.device("cpu"), drop_last=True)
    batches = input.device_batches(session.train[domain], how)
    batches.begin(0, 0)
    images, _ = batches.next()
    first = (images.shape[2] - PARITY_SIDE) // 2
    cut = images[:1, :, first : first + PARITY_SIDE, first : first + PARITY_SIDE]
    return cut.contiguous()


def _as_eager(session: Session, ran: str) -> Check:
    """Loss and gradients of the first step as the case drives it, against the same step run eagerly.

    `worst` is the parameter that is furthest off, of those that have a gradient at all.
    """
    case, device, here = session.case, session.device, session.training.net
    assert isinstance(here, Four)
    there = _fresh(session).to(device=device, memory_format=memory_format(case))
    a, b = (_first_batch(session, domain) for domain in (0, 1))
    exact = _gradients(session, there.nets(), a, b, case.tuning.precision)
    session.training.step()
    # A step does not tell the loss of the discriminators.
    found = _compared((session.training.losses()[-1], exact[1]), exact, here, there)
    del found["discriminators_loss"]
    found["worst"] = max(off(*pair) for pair in _pairs(session, here, there))
    limits = {name: limit for name, limit in _limits(ran).items() if name in found} | {"worst": WORST}
    note = f"relative to the eager step, batch {case.work.batch}, as {ran}"
    return check(limits, found, within(limits, found), note)


def _first_batch(session: Session, domain: int) -> torch.Tensor:
    case = session.case
    batches = input.device_batches(session.train[domain], loading(case, session.device, drop_last=True))
    batches.begin(0, 0)
    return batches.next()[0]


def _pairs(session: Session, here: Four, there: Four) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The gradients of each parameter on both sides, in FP64 on the CPU."""
    left_out = {
        f"{name}.{key}"
        for name, net in cyclegan.nets(session.whole).items()
        for key in normed_away(net.nodes)
    }
    for (name, mine), theirs in zip(here.named_parameters(), there.parameters(), strict=True):
        if name not in left_out:
            assert mine.grad is not None and theirs.grad is not None
            yield mine.grad.double().cpu(), theirs.grad.double().cpu()


def _weights_move(session: Session) -> Check:
    """One real step changes each of the four nets."""
    four = session.training.net
    before = {name: four.get_submodule(name).state_dict() for name in cyclegan.NETS}
    copies = {name: [t.clone() for t in state.values()] for name, state in before.items()}
    session.training.step()
    moved = [
        name
        for name in cyclegan.NETS
        if any(
            not torch.equal(old, new)
            for old, new in zip(copies[name], four.get_submodule(name).state_dict().values(), strict=True)
        )
    ]
    return equal(list(cyclegan.NETS), moved)
