"""CycleGAN's training step: generators and discriminators take turns, as `workloads.cyclegan` says.

Knows nothing about evaluation, checks or where batches come from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from breakeven.errors import Mismatch
from breakeven.records.case import Recipe
from breakeven.runtimes.torch import input, nets
from breakeven.runtimes.torch.compiled import compiled
from breakeven.runtimes.torch.graph import kept_state
from breakeven.runtimes.torch.precision import autocast
from breakeven.runtimes.torch.training import Course, Plan, Seen, Training, adam, recorder
from breakeven.workloads import cyclegan
from breakeven.workloads.layers import Model
from breakeven.workloads.weights import Weights

Images: TypeAlias = torch.Tensor
"""[batch, C, H, W] within -1..1."""

Nets: TypeAlias = tuple[nn.Module, nn.Module, nn.Module, nn.Module]
"""In the order of `cyclegan.NETS`."""


class Pool(nn.Module):
    """Images that a generator made before, [size, C, H, W]: a buffer, so that saving a training saves it.

    It holds as many of the images asked with as `ask` is told came before, at most `size`.
    """

    images: torch.Tensor

    def __init__(self, size: int, seed: int, domain: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.size, self.seed, self.domain = size, seed, domain
        self.register_buffer("images", torch.zeros(size, *shape))

    def ask(self, images: Images, before: int) -> Images:
        """For each image itself, or one made before; `before` were asked with since training began."""
        if not self.size:
            return images
        given = []
        draws = cyclegan.pool_draws(self.seed, self.domain, before, len(images), self.size).tolist()
        for number, (image, (swap, slot)) in enumerate(zip(images, draws, strict=True), start=before):
            if number < self.size:
                self.images[number] = image
            elif swap:
                old = self.images[slot].clone()
                self.images[slot] = image
                image = old
            given.append(image)
        return torch.stack(given)


class Four(nn.Module):
    """Both generators, both discriminators and their pools: all that training changes."""

    def __init__(self, whole: Model, weights: Weights, recipe: Recipe, seed: int) -> None:
        super().__init__()
        for name, declared in cyclegan.nets(whole).items():
            self.add_module(name, nets.build(declared, cyclegan.part(weights, name)))
        shape = whole.input_shape
        self.pool_a, self.pool_b = (Pool(recipe.pool or 0, seed, domain, shape) for domain in (0, 1))

    def nets(self) -> Nets:
        g_ab, g_ba, d_a, d_b = (self.get_submodule(name) for name in cyclegan.NETS)
        return g_ab, g_ba, d_a, d_b


def generator_loss(
    four: Nets, recipe: Recipe, precision: str, a: Images, b: Images
) -> tuple[torch.Tensor, Images, Images]:
    """(loss, fake_a, fake_b) of a batch of pairs; step 2 of the module `workloads.cyclegan`."""
    g_ab, g_ba, d_a, d_b = four
    assert recipe.cycle is not None and recipe.identity is not None
    with autocast(precision, a.device):
        fake_b, fake_a = g_ab(a), g_ba(b)
        cycles = _off(g_ba(fake_b), a) + _off(g_ab(fake_a), b)
        same = _off(g_ab(b), b) + _off(g_ba(a), a)
        fooled = _judged(d_b(fake_b), 1.0) + _judged(d_a(fake_a), 1.0)
    return fooled + recipe.cycle * cycles + recipe.cycle * recipe.identity * same, fake_a, fake_b


def discriminator_loss(
    four: Nets, precision: str, a: Images, b: Images, old_a: Images, old_b: Images
) -> torch.Tensor:
    """The sum of both discriminators' losses; step 4."""
    _, _, d_a, d_b = four
    with autocast(precision, a.device):
        of_a = _judged(d_a(a), 1.0) + _judged(d_a(old_a), 0.0)
        of_b = _judged(d_b(b), 1.0) + _judged(d_b(old_b), 0.0)
    return 0.5 * (of_a + of_b)


def _off(made: Images, real: Images) -> torch.Tensor:
    return functional.l1_loss(made.to(real.dtype), real)


def _judged(scores: torch.Tensor, target: float) -> torch.Tensor:
    wide = scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores
    return (wide - target).square().mean()


@dataclass(frozen=True, kw_only=True, slots=True)
class Domains:
    """Batches of A and of B, one source each."""

    a: input.Batches
    b: input.Batches
    dtype: torch.dtype = torch.float32

    def begin(self, epoch: int, step: int) -> None:
        self.a.begin(epoch, step)
        self.b.begin(epoch, step)

    def next(self) -> tuple[Images, Images]:
        # Both are asked for before either is waited on: their loaders work side by side.
        fetched = self.a.fetch(), self.b.fetch()
        a, b = self.a.place(fetched[0])[0], self.b.place(fetched[1])[0]
        return a.to(self.dtype), b.to(self.dtype)

    def close(self) -> None:
        self.a.close()
        self.b.close()


def alternating(
    plan: Plan, four: Four, domains: Domains, device: torch.device, mode: str | None = None
) -> Training:
    """The four nets in training. `mode`: of the compiler, for each pass of a net; None: eager.

    A pass is what is compiled, not a loss: the losses hold twelve passes of two kinds of net, and a compiler
    that is given a loss compiles each of them again. Nets of one kind share what is made of one.
    """
    run = four.nets() if mode is None else _compiled(four.nets(), mode)
    made, judged = nn.ModuleList(four.nets()[:2]), nn.ModuleList(four.nets()[2:])
    generators, discriminators = adam(made, plan, device), adam(judged, plan, device)
    course = Course(plan=plan, optimizer=generators, others=(discriminators,), start=domains.begin)
    seen = Seen()
    record, losses = recorder(plan, four, device)
    pool_a, pool_b, dtype = four.pool_a, four.pool_b, next(four.parameters()).dtype
    four.train()

    def gradients_of_generators(a: Images, b: Images) -> tuple[torch.Tensor, Images, Images]:
        judged.requires_grad_(False)
        generators.zero_grad(set_to_none=True)
        loss, fake_a, fake_b = generator_loss(run, plan.recipe, plan.precision, a, b)
        loss.backward()
        return loss.detach(), fake_a.detach(), fake_b.detach()

    def gradients_of_discriminators(a: Images, b: Images, old_a: Images, old_b: Images) -> None:
        judged.requires_grad_(True)
        discriminators.zero_grad(set_to_none=True)
        discriminator_loss(run, plan.precision, a, b, old_a, old_b).backward()

    def like(old: Images) -> Images:
        """As real images come, in one type and layout: what is compiled for those serves these too."""
        return old.to(dtype, memory_format=plan.memory_format)

    def step() -> None:
        course.arrive()
        a, b = domains.next()
        if not a.shape == b.shape == plan.shape:
            raise Mismatch("invalid", f"a step got {tuple(a.shape)} and {tuple(b.shape)}, not {plan.shape}")
        loss, fake_a, fake_b = gradients_of_generators(a, b)
        generators.step()
        before = plan.shape[0] * (course.epoch * plan.steps_per_epoch + course.step)
        old_a, old_b = pool_a.ask(fake_a, before), pool_b.ask(fake_b, before)
        gradients_of_discriminators(a, b, like(old_a), like(old_b))
        discriminators.step()
        record(loss)
        course.step += 1
        seen.images, seen.output = a, fake_b

    def build() -> Mapping[str, Any]:
        zeros = torch.zeros(plan.shape, dtype=dtype, device=device)
        shown = zeros.contiguous(memory_format=plan.memory_format)
        with kept_state(four, generators):
            _, fake_a, fake_b = gradients_of_generators(shown, shown)
            gradients_of_discriminators(shown, shown, like(fake_a), like(fake_b))
        generators.zero_grad(set_to_none=True)
        discriminators.zero_grad(set_to_none=True)
        return {"captured": False}

    return Training(
        net=four,
        optimizer=generators,
        others=(discriminators,),
        course=course,
        seen=seen,
        step=step,
        next_epoch=course.next_epoch,
        losses=losses,
        build=None if mode is None else build,
    )


def _compiled(four: Nets, mode: str) -> Nets:
    g_ab, g_ba, d_a, d_b = (compiled(net, mode) for net in four)
    return g_ab, g_ba, d_a, d_b
