"""CycleGAN's training step as a program: both parts take turns, as `workloads.cyclegan` says.

Knows nothing about evaluation, checks or where batches come from. The carry holds the tensors of all four
nets as `NET.TENSOR`, and in `pools` by domain the images that a generator made before.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from breakeven.runtimes.jax import input, nets, training
from breakeven.runtimes.jax.nets import Array, Arrays
from breakeven.runtimes.jax.training import Carry, Plan
from breakeven.workloads import cyclegan
from breakeven.workloads.layers import Model

DOMAINS = ("a", "b")


def first_carry(plan: Plan, arrays: Mapping[str, np.ndarray[Any, Any]], device: jax.Device) -> Carry:
    """The four nets, their moments and empty pools before the first step, on the device."""
    carry = training.first_carry(plan, arrays, device)
    empty = np.zeros((plan.recipe.pool or 0, *plan.shape[1:]), plan.dtype)
    carry["pools"] = jax.device_put({x: empty for x in DOMAINS} if plan.recipe.pool else {}, device)
    return carry


def of_nets(arrays: Mapping[str, Array], names: tuple[str, ...]) -> Arrays:
    """The tensors of some of the nets, named as before."""
    return {key: array for key, array in arrays.items() if key.startswith(tuple(f"{n}." for n in names))}


def generator_gradients(
    plan: Plan, params: Mapping[str, Array], a: Array, b: Array
) -> tuple[Array, Arrays, Array, Array]:
    """(loss, gradients of both generators, fake_a, fake_b) of a batch of pairs; step 2 of the text."""
    recipe, judges = plan.recipe, of_nets(params, cyclegan.DISCRIMINATORS)
    assert recipe.cycle is not None and recipe.identity is not None
    cycle, identity = recipe.cycle, recipe.cycle * recipe.identity
    declared = cyclegan.nets(plan.model)

    def loss_of(generators: Arrays, a: Array, b: Array) -> tuple[Array, tuple[Array, Array]]:
        g_ab, g_ba, d_a, d_b = _runs(plan, declared, {**generators, **judges})
        fake_b, fake_a = g_ab(a), g_ba(b)
        cycles = _off(g_ba(fake_b), a) + _off(g_ab(fake_a), b)
        same = _off(g_ab(b), b) + _off(g_ba(a), a)
        fooled = _judged(d_b(fake_b), 1.0) + _judged(d_a(fake_a), 1.0)
        return fooled + cycle * cycles + identity * same, (fake_a, fake_b)

    differentiate = jax.value_and_grad(loss_of, has_aux=True)
    generators = of_nets(params, cyclegan.GENERATORS)
    (loss, (fake_a, fake_b)), found = differentiate(generators, *_typed(plan, a, b))
    return loss, found, *_typed(plan, fake_a, fake_b)


def discriminator_gradients(
    plan: Plan, params: Mapping[str, Array], a: Array, b: Array, old_a: Array, old_b: Array
) -> tuple[Array, Arrays]:
    """(sum of both losses, gradients of both discriminators); step 4."""
    declared, made = cyclegan.nets(plan.model), of_nets(params, cyclegan.GENERATORS)

    def loss_of(judges: Arrays, a: Array, b: Array, old_a: Array, old_b: Array) -> Array:
        _, _, d_a, d_b = _runs(plan, declared, {**made, **judges})
        of_a = _judged(d_a(a), 1.0) + _judged(d_a(old_a), 0.0)
        of_b = _judged(d_b(b), 1.0) + _judged(d_b(old_b), 0.0)
        return 0.5 * (of_a + of_b)

    judges = of_nets(params, cyclegan.DISCRIMINATORS)
    loss, found = jax.value_and_grad(loss_of)(judges, *_typed(plan, a, b, old_a, old_b))
    return loss, found


def ask(pool: Array, images: Array, draws: Array, before: Array) -> tuple[Array, Array]:
    """(the pool afterwards, for each image itself or one made before).

    `draws` [n, 2] as `cyclegan.pool_draws` gives them; `before` images were asked with since training began.
    The pool [size, ...] holds as many of them, at most its size.
    """
    numbers = before + jnp.arange(len(images), dtype=jnp.int32)

    def one(pool: Array, asked: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        image, (swap, slot), number = asked
        filling = number < len(pool)
        place = jnp.where(filling, number, slot)
        swapped = ~filling & (swap == 1)
        old = lax.dynamic_index_in_dim(pool, place, keepdims=False)
        stored = jnp.where(filling | swapped, image, old)
        pool = lax.dynamic_update_index_in_dim(pool, stored, place, axis=0)
        return pool, jnp.where(swapped, old, image)

    pool, given = lax.scan(one, pool, (images, draws, numbers))
    return pool, given


def update(plan: Plan, carry: Carry, fixed: Arrays, a: Array, b: Array) -> tuple[Carry, Array]:
    """The carry after one step on a batch of pairs, and the generators' loss."""
    rate, first = fixed["lr"], carry["batch"] * plan.batch
    loss, found, fake_a, fake_b = generator_gradients(plan, carry["params"], a, b)
    moved = training.adam(plan.recipe, _part(carry, cyclegan.GENERATORS), found, rate)
    pools, shown = {}, {"a": fake_a, "b": fake_b}
    for x, pool in carry["pools"].items():
        draws = lax.dynamic_slice_in_dim(fixed["draws"][x], first, plan.batch)
        pools[x], shown[x] = ask(pool, shown[x], draws, fixed["before"] + first)
    # The discriminators have not moved, and the generators that have make no new images.
    _, judged = discriminator_gradients(plan, carry["params"], a, b, shown["a"], shown["b"])
    judges = training.adam(plan.recipe, _part(carry, cyclegan.DISCRIMINATORS), judged, rate)
    after = dict(carry) | {
        "pools": pools,
        "batch": carry["batch"] + 1,
        "losses": carry["losses"].at[carry["kept"] % plan.steps_per_epoch].set(loss.astype(plan.dtype)),
        "kept": carry["kept"] + 1,
        "updates": moved["updates"],
        **{part: {**moved[part], **judges[part]} for part in ("params", "m", "v")},
    }
    return after, loss


def resident_step(plan: Plan, carry: Carry, fixed: Arrays) -> tuple[Carry, Array]:
    """A step that cuts both batches itself, from data on the device."""
    pair = []
    for x in DOMAINS:
        columns = fixed["columns"][x]
        rows = lax.dynamic_slice_in_dim(columns, carry["batch"] * plan.batch, plan.batch, axis=1)
        images, _ = input.cut(fixed["data"][x], rows, channels_last=plan.how.channels_last)
        pair.append(images)
    return update(plan, carry, fixed, *pair)


def _runs(plan: Plan, declared: Mapping[str, Model], arrays: Arrays) -> list[Any]:
    """The four nets as functions of images, in the order of `cyclegan.NETS`."""

    def run(name: str) -> Any:
        own = cyclegan.part(arrays, name)
        return lambda images: nets.forward(declared[name], own, images, plan.how)[0]

    return [run(name) for name in cyclegan.NETS]


def _part(carry: Carry, names: tuple[str, ...]) -> Carry:
    """What Adam moves of some of the nets. Both parts have been updated equally often."""
    parts = {part: of_nets(carry[part], names) for part in ("params", "m", "v")}
    return {**parts, "updates": carry["updates"]}


def _typed(plan: Plan, *images: Array) -> tuple[Array, ...]:
    return tuple(each.astype(plan.dtype) for each in images)


def _off(made: Array, real: Array) -> Array:
    return jnp.abs(made.astype(real.dtype) - real).mean()


def _judged(scores: Array, target: float) -> Array:
    wide = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
    return jnp.square(wide - target).mean()
