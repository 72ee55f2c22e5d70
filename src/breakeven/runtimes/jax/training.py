"""One training step as a program: forward, backward and the recipe's update; and the order of steps.

Knows nothing about evaluation, checks or where batches come from. What a step changes is one tree of arrays,
the carry, which the program is given and gives back; their memory is handed on (donated).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from breakeven.errors import Mismatch
from breakeven.records.case import Recipe
from breakeven.runtimes.jax import input, nets
from breakeven.runtimes.jax.nets import Array, Arrays, How
from breakeven.workloads.layers import Model
from breakeven.workloads.schedule import learning_rate

Carry = dict[str, Any]

SCALE, GROWTH_STEPS = 2.0**16, 2000
"""Of the loss in FP16, whose gradients underflow otherwise: halved where one overflows, doubled after so many
steps without (Micikevicius et al. 2018; the constants are torch's)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a step needs to know of its case. `shape`: of its images as the net takes them."""

    model: Model
    recipe: Recipe
    seed: int
    shape: tuple[int, ...]
    steps_per_epoch: int
    how: How
    scaled: bool
    resident: bool
    loss_every_step: bool
    jitted: bool
    dtype: Any = np.float32

    @property
    def batch(self) -> int:
        return self.shape[0]


def first_carry(plan: Plan, arrays: Mapping[str, np.ndarray[Any, Any]], device: jax.Device) -> Carry:
    """Parameters, running statistics and moments before the first step, on the device."""
    cast = {name: array.astype(plan.dtype) for name, array in arrays.items()}
    params = {name: array for name, array in cast.items() if nets.trained(name)}
    carry: Carry = {
        "params": params,
        "buffers": {name: array for name, array in cast.items() if not nets.trained(name)},
        "m": {name: np.zeros_like(array) for name, array in params.items()},
        "v": {name: np.zeros_like(array) for name, array in params.items()},
        "updates": np.int32(0),
        "batch": np.int32(0),
        "losses": np.zeros(plan.steps_per_epoch, plan.dtype),
        "kept": np.int32(0),
    }
    if plan.scaled:
        carry["scale"], carry["unscathed"] = np.float32(SCALE), np.int32(0)
    # Memory of NumPy's that JAX shares on a CPU is not written to: a donated array of it is copied first.
    placed: Carry = jax.device_put(carry, device)
    return placed


def gradients(
    plan: Plan,
    params: Arrays,
    buffers: Arrays,
    images: Array,
    labels: Array,
    key: Array,
    scale: Array | float = 1.0,
) -> tuple[Array, Arrays, Arrays, Array]:
    """(mean loss, gradients, running statistics, scores) of a batch, in the recipe's number of equal parts.

    Batch norm sees each part by itself. Gradients are of the loss times `scale`.
    """
    parts = plan.recipe.accumulation

    def loss_of(params: Arrays, buffers: Arrays, images: Array, labels: Array, key: Array) -> Any:
        how = How(channels_last=plan.how.channels_last, training=True, dtype=plan.how.dtype, key=key)
        scores, moved = nets.forward(plan.model, {**params, **buffers}, images.astype(plan.dtype), how)
        loss = cross_entropy(scores, labels).mean()
        return loss * scale, (loss, {**buffers, **moved}, scores)

    differentiate = jax.grad(loss_of, has_aux=True)
    if parts == 1:
        found, (loss, buffers, scores) = differentiate(params, buffers, images, labels, key)
        return loss, found, buffers, scores
    total, losses, made = jax.tree.map(jnp.zeros_like, params), [], []
    for index, (few, their) in enumerate(
        zip(jnp.split(images, parts), jnp.split(labels, parts), strict=True)
    ):
        found, (loss, buffers, scores) = differentiate(
            params, buffers, few, their, jax.random.fold_in(key, index)
        )
        total = jax.tree.map(lambda a, b: a + b / parts, total, found)
        losses.append(loss / parts)
        made.append(scores)
    return sum(losses[1:], losses[0]), total, buffers, jnp.concatenate(made)


def cross_entropy(scores: Array, labels: Array) -> Array:
    """-log softmax at the label, of each sample, in FP32 at least."""
    wide = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
    return -jnp.take_along_axis(jax.nn.log_softmax(wide), labels[:, None], axis=1)[:, 0]


def update(plan: Plan, carry: Carry, fixed: Arrays, images: Array, labels: Array) -> tuple[Carry, Array]:
    """The carry after one step on a batch, and its loss. `fixed`: what stays through an epoch."""
    key = jax.random.fold_in(fixed["key"], carry["batch"])
    scale = carry["scale"] if plan.scaled else 1.0
    loss, found, buffers, _ = gradients(plan, carry["params"], carry["buffers"], images, labels, key, scale)
    after = dict(carry) | {
        "buffers": buffers,
        "batch": carry["batch"] + 1,
        "losses": carry["losses"].at[carry["kept"] % plan.steps_per_epoch].set(loss.astype(plan.dtype)),
        "kept": carry["kept"] + 1,
    }
    if not plan.scaled:
        return after | adam(plan.recipe, carry, found, fixed["lr"]), loss
    found = jax.tree.map(lambda g: g / scale, found)
    finite = jnp.stack([jnp.isfinite(g).all() for g in jax.tree.leaves(found)]).all()
    moved = adam(plan.recipe, carry, found, fixed["lr"])
    after |= jax.tree.map(lambda new, old: jnp.where(finite, new, old), moved, {k: carry[k] for k in moved})
    grown = carry["unscathed"] + 1 >= GROWTH_STEPS
    after["scale"] = jnp.where(finite, jnp.where(grown, scale * 2, scale), scale / 2)
    after["unscathed"] = jnp.where(finite & ~grown, carry["unscathed"] + 1, 0)
    return after, loss


def adam(recipe: Recipe, carry: Carry, found: Arrays, rate: Array) -> Carry:
    """Kingma and Ba 2015, algorithm 1, with epsilon outside the root of the corrected second moment.

    1 - beta^t is -expm1(t log beta): as a difference FP32 would lose what is left of it at small t.
    """
    updates = carry["updates"] + 1
    dtype = jnp.asarray(rate).dtype
    first, second = (
        -jnp.expm1(updates.astype(dtype) * float(np.log(beta))) for beta in (recipe.beta1, recipe.beta2)
    )
    if recipe.weight_decay:
        found = jax.tree.map(lambda g, w: g + recipe.weight_decay * w, found, carry["params"])
    m = jax.tree.map(lambda m, g: recipe.beta1 * m + (1 - recipe.beta1) * g, carry["m"], found)
    v = jax.tree.map(lambda v, g: recipe.beta2 * v + (1 - recipe.beta2) * g * g, carry["v"], found)
    params = jax.tree.map(
        lambda w, m, v: w - rate * (m / first) / (jnp.sqrt(v / second) + recipe.eps), carry["params"], m, v
    )
    return {"params": params, "m": m, "v": v, "updates": updates}


def resident_step(plan: Plan, carry: Carry, fixed: Arrays) -> tuple[Carry, Array]:
    """A step that cuts its batch itself, from data on the device: the host hands over nothing."""
    rows = jax.lax.dynamic_slice_in_dim(fixed["columns"], carry["batch"] * plan.batch, plan.batch, axis=1)
    images, labels = input.cut(fixed, rows, channels_last=plan.how.channels_last)
    return update(plan, carry, fixed, images, labels)


@dataclass(kw_only=True, slots=True)
class Training:
    """A net in training: `step` batches of `epoch` are done. `begun`: its batches have been asked for."""

    plan: Plan
    device: jax.Device
    carry: Carry
    fixed: Arrays
    source: input.Source
    program: Callable[..., tuple[Carry, Array]]
    epoch: int = 0
    step_number: int = 0
    begun: bool = False
    compiled: bool = False
    last_loss: Array | None = None
    read: list[float] = field(default_factory=list)
    unread: int = 0

    def begin(self) -> None:
        """What an epoch starts with: the learning rate, its batches, and what they come with."""
        rate = learning_rate(self.plan.recipe, self.epoch)
        own = {"lr": np.asarray(rate, self.plan.dtype), **self.source.begin(self.epoch, self.step_number)}
        self.fixed |= jax.device_put(own, self.device)
        self.carry["batch"] = jax.device_put(np.int32(self.step_number), self.device)
        self.begun = True

    def next_epoch(self) -> None:
        self.epoch, self.step_number = self.epoch + 1, 0
        self.begin()

    def batch(self) -> tuple[Array, ...]:
        """What the program is given besides: nothing, or the next batch of the host on its way."""
        made = self.source.next()
        for array, declared in zip(made, self.source.given, strict=True):
            if array.shape != declared.shape:
                raise Mismatch("invalid", f"a step got {array.shape}, not {declared.shape}")
        placed: tuple[Array, ...] = jax.device_put(made, self.device)
        return placed

    def step(self) -> None:
        if self.step_number == self.plan.steps_per_epoch:
            self.next_epoch()
        elif not self.begun:
            self.begin()
        self.carry, loss = self.program(self.carry, self.fixed, *self.batch())
        self.step_number += 1
        self.last_loss = loss
        if self.plan.loss_every_step:
            self.read.append(float(loss))
        else:
            self.unread += 1

    def sync(self) -> None:
        """Every step takes what the one before gave: all are done when the last one is."""
        jax.block_until_ready((self.carry, self.last_loss))

    def losses(self) -> tuple[float, ...]:
        """Since the last call: read every step, or from a buffer of one epoch; older ones of it are lost."""
        if self.plan.loss_every_step:
            found, self.read = tuple(self.read), []
            return found
        buffer, kept = np.asarray(self.carry["losses"]), int(self.carry["kept"])
        n, self.unread = min(self.unread, len(buffer)), 0
        return tuple(float(buffer[i % len(buffer)]) for i in range(kept - n, kept))

    def compile(self) -> None:
        """Makes the program for the shapes of this case, without running it."""
        if not self.plan.jitted or self.compiled:
            return
        if not self.begun:
            self.begin()
        blank = tuple(np.zeros(each.shape, each.dtype) for each in self.source.given)
        given: tuple[Array, ...] = jax.device_put(blank, self.device)
        self.program = jax.jit(self.program, donate_argnums=0).lower(self.carry, self.fixed, *given).compile()
        self.compiled = True
