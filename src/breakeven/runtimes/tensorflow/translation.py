"""CycleGAN's training step: generators and discriminators take turns, as `workloads.cyclegan` says.

Knows nothing about evaluation, checks or where batches come from. The whole step is one function, pools and
their draws included: the host hands over images, or nothing.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from breakeven.records.case import Recipe
from breakeven.runtimes.tensorflow import nets
from breakeven.runtimes.tensorflow.input import Source
from breakeven.runtimes.tensorflow.library import tf
from breakeven.runtimes.tensorflow.nets import Net
from breakeven.runtimes.tensorflow.training import Plan, Tensor, Training, adam, driven
from breakeven.workloads import cyclegan
from breakeven.workloads.layers import Model
from breakeven.workloads.weights import Weights

Images: TypeAlias = Tensor
"""[batch, H, W, C] within -1..1."""

Nets: TypeAlias = Mapping[str, Net]
"""In the order of `cyclegan.NETS`."""


def four(whole: Model, weights: Weights, policy: str) -> Nets:
    """The four nets under a dtype policy of Keras's, with their parts of `weights` copied in."""
    declared = cyclegan.nets(whole)
    return {name: nets.build(net, cyclegan.part(weights, name), policy) for name, net in declared.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Images that a generator made before, [size, H, W, C], and an epoch's draws, int64 [n, 2]: variables.

    `asked` is the number of images that it was asked with since training began, `first` that of those before
    the epoch.
    """

    domain: int
    images: Any
    draws: Any
    asked: Any
    first: Any

    def begin(self, seed: int, before: int, number: int) -> None:
        """Starts an epoch before which `before` images came, at image `number` of all."""
        n, size = self.draws.shape[0], self.images.shape[0]
        self.draws.assign(cyclegan.pool_draws(seed, self.domain, before, n, size))
        self.first.assign(before)
        self.asked.assign(number)

    def ask(self, images: Images) -> Images:
        """For each image itself, or one made before."""
        if not self.images.shape[0]:
            return images
        given = []
        for image in tf.unstack(images):
            swap, slot = tf.unstack(tf.gather(self.draws, self.asked - self.first))
            filling = self.asked < self.images.shape[0]
            place = tf.where(filling, self.asked, slot)
            old = tf.gather(self.images, place)
            taken, swapped = filling | (swap > 0), ~filling & (swap > 0)
            self.images.scatter_update(tf.IndexedSlices(tf.where(taken, image, old), place))
            given.append(tf.where(swapped, old, image))
            self.asked.assign_add(1)
        return tf.stack(given)


def pool(plan: Plan, domain: int) -> Pool:
    """Of a plan's recipe, empty."""
    batch, *extents = plan.shape
    with tf.device(plan.device):

        def zeros(shape: list[int], dtype: str) -> Any:
            return tf.Variable(tf.zeros(shape, dtype), trainable=False)

        return Pool(
            domain=domain,
            images=zeros([plan.recipe.pool or 0, *extents], plan.dtype),
            draws=zeros([batch * plan.steps_per_epoch, 2], "int64"),
            asked=zeros([], "int64"),
            first=zeros([], "int64"),
        )


def generator_loss(made: Nets, recipe: Recipe, a: Images, b: Images) -> tuple[Tensor, Images, Images]:
    """(loss, fake_a, fake_b) of a batch of pairs; step 2 of the module `workloads.cyclegan`."""
    assert recipe.cycle is not None and recipe.identity is not None
    g_ab, g_ba, d_a, d_b = (_run(made[name]) for name in cyclegan.NETS)
    fake_b, fake_a = g_ab(a), g_ba(b)
    cycles = _off(g_ba(fake_b), a) + _off(g_ab(fake_a), b)
    same = _off(g_ab(b), b) + _off(g_ba(a), a)
    fooled = _judged(d_b(fake_b), 1.0) + _judged(d_a(fake_a), 1.0)
    loss = fooled + recipe.cycle * cycles + recipe.cycle * recipe.identity * same
    return loss, tf.cast(fake_a, a.dtype), tf.cast(fake_b, b.dtype)


def discriminator_loss(made: Nets, a: Images, b: Images, old_a: Images, old_b: Images) -> Tensor:
    """The sum of both discriminators' losses; step 4."""
    d_a, d_b = (_run(made[name]) for name in cyclegan.DISCRIMINATORS)
    of_a = _judged(d_a(a), 1.0) + _judged(d_a(old_a), 0.0)
    of_b = _judged(d_b(b), 1.0) + _judged(d_b(old_b), 0.0)
    return 0.5 * (of_a + of_b)


def generator_gradients(
    made: Nets, recipe: Recipe, a: Images, b: Images
) -> tuple[Tensor, list[Tensor], Images, Images]:
    """(loss, gradients, fake_a, fake_b) of 2.; the gradients are of the generators' weights alone."""
    weights = _weights(made, cyclegan.GENERATORS)
    # Only what is watched has gradients: the discriminators' weights are constants here.
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(weights)
        loss, fake_a, fake_b = generator_loss(made, recipe, a, b)
    return loss, tape.gradient(loss, weights), fake_a, fake_b


def discriminator_gradients(
    made: Nets, a: Images, b: Images, old_a: Images, old_b: Images
) -> tuple[Tensor, list[Tensor]]:
    """(loss, gradients) of 4."""
    weights = _weights(made, cyclegan.DISCRIMINATORS)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(weights)
        loss = discriminator_loss(made, a, b, old_a, old_b)
    return loss, tape.gradient(loss, weights)


def _weights(made: Nets, names: tuple[str, ...]) -> list[Any]:
    return [variable.value for name in names for variable in made[name].trained]


def _run(net: Net) -> Any:
    return lambda images: net(images, training=True)


def _off(made: Images, real: Images) -> Tensor:
    return tf.reduce_mean(tf.abs(tf.cast(made, real.dtype) - real))


def _judged(scores: Tensor, target: float) -> Tensor:
    wide = scores if scores.dtype == tf.float64 else tf.cast(scores, tf.float32)
    return tf.reduce_mean(tf.square(wide - target))


def paired(a: Source, b: Source) -> Source:
    """Batches of A and of B, one source each; `take` gives the images of both."""

    def begin(epoch: int, step: int) -> None:
        a.begin(epoch, step)
        b.begin(epoch, step)

    def take(*given: Tensor) -> tuple[Tensor, Tensor]:
        half = len(given) // 2
        return a.take(*given[:half])[0], b.take(*given[half:])[0]

    def close() -> None:
        a.close()
        b.close()

    return Source(
        begin=begin,
        next=lambda: (*a.next(), *b.next()),
        take=take,
        blank=lambda: (*a.blank(), *b.blank()),
        state=(*a.state, *b.state),
        close=close,
    )


def _with_pools(source: Source, plan: Plan, pools: tuple[Pool, ...]) -> Source:
    """The source, which also starts an epoch of the pools: what a step draws follows from its place alone."""
    batch = plan.shape[0]

    def begin(epoch: int, step: int) -> None:
        source.begin(epoch, step)
        before = batch * epoch * plan.steps_per_epoch
        for one in pools:
            one.begin(plan.seed, before, before + batch * step)

    return Source(
        begin=begin,
        next=source.next,
        take=source.take,
        blank=source.blank,
        state=(*source.state, *(one.asked for one in pools)),
        close=source.close,
    )


def alternating(plan: Plan, made: Nets, source: Source) -> Training:
    """The four nets in training; `source` is `paired`. Nothing runs until the first step."""
    generators, discriminators = (
        adam([made[name] for name in names], plan.recipe, plan.device)
        for names in (cyclegan.GENERATORS, cyclegan.DISCRIMINATORS)
    )
    pool_a, pool_b = pools = pool(plan, 0), pool(plan, 1)

    def step(*given: Tensor) -> Tensor:
        a, b = (tf.cast(images, plan.dtype) for images in source.take(*given))
        loss, found, fake_a, fake_b = generator_gradients(made, plan.recipe, a, b)
        generators.apply(found)
        old_a, old_b = pool_a.ask(fake_a), pool_b.ask(fake_b)
        _, found = discriminator_gradients(made, a, b, old_a, old_b)
        discriminators.apply(found)
        return loss

    training = Training(
        plan=plan,
        nets=tuple(made[name] for name in cyclegan.NETS),
        source=_with_pools(source, plan, pools),
        optimizers=(generators, discriminators),
        scaler=None,
        program=driven(step, plan.execution),
        pools=tuple(one.images for one in pools),
    )
    training.kept = deque(maxlen=plan.steps_per_epoch)
    return training


def weights_of(made: tuple[Net, ...]) -> Weights:
    """Of the four nets as they are now, by the names of `cyclegan.first_weights`."""
    return {
        f"{name}.{key}": tensor
        for name, net in zip(cyclegan.NETS, made, strict=True)
        for key, tensor in net.weights().items()
    }
