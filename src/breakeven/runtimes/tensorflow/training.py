"""One training step, its optimizer and schedule, and its place in the order of steps and epochs.

Knows nothing about evaluation or checks. What a step changes are variables on the device.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from breakeven.errors import Mismatch
from breakeven.records.case import Recipe
from breakeven.runtimes.tensorflow.input import Source
from breakeven.runtimes.tensorflow.library import keras, tf
from breakeven.runtimes.tensorflow.nets import Net
from breakeven.workloads.philox import derive
from breakeven.workloads.schedule import learning_rate

Tensor = Any

SCALE, GROWTH_STEPS = 2.0**16, 2000
"""Of the loss in FP16, whose gradients underflow otherwise: halved where one overflows, doubled after so many
steps without (Micikevicius et al. 2018; the constants are torch's)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a training needs to know of its case. `shape`: of a step's images, [batch, H, W, C].

    `execution`: eager, tf.function or xla. `scaled`: the loss is scaled up, as FP16's is.
    """

    recipe: Recipe
    seed: int
    shape: tuple[int, ...]
    steps_per_epoch: int
    execution: str
    loss_every_step: bool
    device: str
    scaled: bool = False
    dtype: str = "float32"


def driven(function: Callable[..., Any], execution: str) -> Callable[..., Any]:
    """The function as an execution runs it: as it is, as a graph, or compiled by XLA."""
    if execution == "eager":
        return function
    compiled = True if execution == "xla" else None
    made: Callable[..., Any] = tf.function(function, autograph=False, jit_compile=compiled)
    return made


def traces(function: Callable[..., Any]) -> int:
    """How often a driven function was traced, and so compiled: once for each kind of argument."""
    count = getattr(function, "experimental_get_tracing_count", None)
    return 0 if count is None else int(count())


def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy, in float32 at least."""
    wide = logits if logits.dtype == tf.float64 else tf.cast(logits, tf.float32)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, wide))


def gradients(
    net: Net, images: Tensor, labels: Tensor, *, accumulation: int = 1, scale: Tensor | float = 1.0
) -> tuple[Tensor, list[Tensor]]:
    """(mean loss, gradients of it times `scale`), in equal parts. Batch norm sees each part by itself."""
    trained = [variable.value for variable in net.trained]
    losses: list[Tensor] = []
    total: list[Tensor] = []
    for few, their in zip(
        tf.split(images, accumulation) if accumulation > 1 else [images],
        tf.split(labels, accumulation) if accumulation > 1 else [labels],
        strict=True,
    ):
        with tf.GradientTape() as tape:
            loss = mean_loss(net(few, training=True), their) / accumulation
            scaled = loss * scale
        found = tape.gradient(scaled, trained)
        total = [a + b for a, b in zip(total, found, strict=True)] if total else list(found)
        losses.append(loss)
    return tf.add_n(losses), total


@dataclass(frozen=True, kw_only=True, slots=True)
class Adam:
    """Kingma and Ba 2015, algorithm 1: epsilon is added to the root of the corrected second moment.

    TensorFlow's kernel adds it to the root of the uncorrected one (as Keras's optimizer does). Given epsilon
    times the root of the correction, it computes the recipe's formula. `powers` are beta1^t and beta2^t.
    """

    recipe: Recipe
    trained: Sequence[Any]
    first: Sequence[Any]
    second: Sequence[Any]
    powers: tuple[Any, Any]
    rate: Any

    @property
    def state(self) -> tuple[Any, ...]:
        return (*self.first, *self.second, *self.powers)

    def apply(self, found: Sequence[Tensor]) -> None:
        recipe = self.recipe
        for power, beta in zip(self.powers, (recipe.beta1, recipe.beta2), strict=True):
            power.assign(power * beta)
        dtype = self.trained[0].dtype
        power1, power2 = (tf.cast(power, dtype) for power in self.powers)
        # In FP64 first: as a difference FP32 would lose what is left of it at small t.
        eps = tf.cast(recipe.eps * tf.sqrt(1 - self.powers[1]), dtype)
        beta1, beta2 = (tf.constant(beta, dtype) for beta in (recipe.beta1, recipe.beta2))
        for w, m, v, g in zip(self.trained, self.first, self.second, found, strict=True):
            if recipe.weight_decay:
                g = g + recipe.weight_decay * w
            tf.raw_ops.ResourceApplyAdam(
                var=w.handle, m=m.handle, v=v.handle, beta1_power=power1, beta2_power=power2,
                lr=self.rate, beta1=beta1, beta2=beta2, epsilon=eps, grad=g,
            )  # fmt: skip


def adam(nets: Sequence[Net], recipe: Recipe, device: str) -> Adam:
    """The optimizer of all weights of `nets` before its first step."""
    trained = [variable.value for net in nets for variable in net.trained]
    with tf.device(device):

        def zeros() -> list[Any]:
            return [tf.Variable(tf.zeros_like(w), trainable=False) for w in trained]

        powers = tuple(tf.Variable(tf.ones([], tf.float64), trainable=False) for _ in range(2))
        rate = tf.Variable(tf.constant(recipe.lr, trained[0].dtype), trainable=False)
        return Adam(
            recipe=recipe,
            trained=trained,
            first=zeros(),
            second=zeros(),
            powers=(powers[0], powers[1]),
            rate=rate,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaler:
    """The factor on the loss in FP16, and for how many steps no gradient has overflowed."""

    factor: Any
    unscathed: Any

    def apply(self, optimizer: Adam, found: Sequence[Tensor]) -> None:
        """The optimizer's step on gradients too large by the factor, left out where one overflowed."""
        found = [g / tf.cast(self.factor, g.dtype) for g in found]
        finite = tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(g)) for g in found]))
        # The step is taken and taken back: a branch would end an XLA program.
        changed = (*optimizer.trained, *optimizer.state)
        before = [tf.identity(v) for v in changed]
        optimizer.apply(found)
        for variable, old in zip(changed, before, strict=True):
            variable.assign(tf.where(finite, variable, old))
        grown = self.unscathed + 1 >= GROWTH_STEPS
        larger = tf.where(grown, self.factor * 2, self.factor)
        self.factor.assign(tf.where(finite, larger, self.factor / 2))
        self.unscathed.assign(tf.where(finite & ~grown, self.unscathed + 1, tf.zeros_like(self.unscathed)))


def scaler(device: str) -> Scaler:
    with tf.device(device):
        return Scaler(
            factor=tf.Variable(tf.constant(SCALE), trainable=False),
            unscathed=tf.Variable(tf.zeros([], tf.int64), trainable=False),
        )


@dataclass(kw_only=True, slots=True)
class Training:
    """Nets in training: `step_number` batches of `epoch` are done. `begun`: its batches are asked for.

    The first net is the one that is evaluated and exported. `pools`: what else training changes.
    """

    plan: Plan
    nets: tuple[Net, ...]
    source: Source
    optimizers: tuple[Adam, ...]
    scaler: Scaler | None
    program: Callable[..., Any]
    pools: tuple[Any, ...] = ()
    epoch: int = 0
    step_number: int = 0
    begun: bool = False
    built: bool = False
    last_loss: Any = None
    read: list[float] = field(default_factory=list)
    kept: deque[Any] = field(default_factory=deque)

    @property
    def net(self) -> Net:
        return self.nets[0]

    def begin(self) -> None:
        """What an epoch starts with on every tuning: dropout's draws, the learning rate, its batches."""
        for optimizer in self.optimizers:
            optimizer.rate.assign(learning_rate(self.plan.recipe, self.epoch))
        # A function of (seed, epoch), like all else: a resumed epoch repeats them.
        drawn = derive(self.plan.seed, "dropout", self.epoch)
        for state in _draws(self.nets):
            state.assign(np.array([drawn >> 32 & 0xFFFFFFFF, drawn & 0xFFFFFFFF], np.uint32))
        self.begun = True
        self.source.begin(self.epoch, self.step_number)

    def next_epoch(self) -> None:
        self.epoch, self.step_number = self.epoch + 1, 0
        self.begin()

    def step(self) -> None:
        if self.step_number == self.plan.steps_per_epoch:
            self.next_epoch()
        elif not self.begun:
            self.begin()
        given = self.source.next()
        for images in given[::2]:  # and labels, in turn
            if tuple(images.shape) != self.plan.shape:
                raise Mismatch("invalid", f"a step got {tuple(images.shape)}, not {self.plan.shape}")
        with tf.device(self.plan.device):
            loss = self.program(*given)
        self.step_number += 1
        self.last_loss = loss
        if self.plan.loss_every_step:
            self.read.append(float(loss))
        else:
            self.kept.append(loss)

    def losses(self) -> tuple[float, ...]:
        """Since the last call: read every step, or kept on the device, one epoch's at most."""
        kept = tf.stack(list(self.kept)).numpy().tolist() if self.kept else []
        found = (*self.read, *map(float, kept))
        self.read.clear()
        self.kept.clear()
        return found

    @property
    def state(self) -> tuple[Any, ...]:
        """Every variable that training changes, but for the place in the order of batches."""
        scaled = () if self.scaler is None else (self.scaler.factor, self.scaler.unscathed)
        held = (held.variable.value for net in self.nets for held in net.held.values())
        moments = (variable for optimizer in self.optimizers for variable in optimizer.state)
        return (*held, *moments, *self.pools, *scaled)

    def build(self) -> Mapping[str, Any]:
        """Traces the step, and compiles it, by taking it once; then all is put back as it was."""
        if self.plan.execution != "eager" and not self.built:
            changed = (*self.state, *self.source.state, *_draws(self.nets))
            before = [variable.numpy() for variable in changed]
            with tf.device(self.plan.device):
                self.program(*self.source.blank())
            for variable, value in zip(changed, before, strict=True):
                variable.assign(value)
            self.built = True
        # TensorFlow keeps nothing of what it traced or compiled from one process to the next.
        return {"cache_state": "cold", "traces": traces(self.program)}


def _draws(nets: Sequence[Net]) -> list[Any]:
    every = (layer for net in nets for layer in net.model.layers)
    return [layer.seed_generator.state.value for layer in every if isinstance(layer, keras.layers.Dropout)]


def training(plan: Plan, net: Net, source: Source) -> Training:
    """Ties net, optimizer and batches together. Nothing runs until the first step."""
    optimizer = adam([net], plan.recipe, plan.device)
    scaled = scaler(plan.device) if plan.scaled else None

    def step(*given: Tensor) -> Tensor:
        images, labels = source.take(*given)
        if plan.dtype != "float32":
            images = tf.cast(images, plan.dtype)
        scale = 1.0 if scaled is None else scaled.factor
        loss, found = gradients(net, images, labels, accumulation=plan.recipe.accumulation, scale=scale)
        if scaled is None:
            optimizer.apply(found)
        else:
            scaled.apply(optimizer, found)
        return loss

    made = Training(
        plan=plan,
        nets=(net,),
        source=source,
        optimizers=(optimizer,),
        scaler=scaled,
        program=driven(step, plan.execution),
    )
    made.kept = deque(maxlen=plan.steps_per_epoch)
    return made
