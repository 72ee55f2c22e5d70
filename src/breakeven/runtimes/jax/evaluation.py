"""Scoring a net on the test set without changing anything.

Knows nothing about training.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from breakeven.runtimes import Evaluation
from breakeven.runtimes.jax import input, nets
from breakeven.runtimes.jax.nets import Array, Arrays
from breakeven.runtimes.jax.training import Plan, cross_entropy
from breakeven.workloads.splits import Split

Score = Callable[[Plan, Mapping[str, Array], Array, Array, Array], Array]


def scored(plan: Plan, arrays: Mapping[str, Array], images: Array, labels: Array, counted: Array) -> Array:
    """[right answers, summed cross-entropy] of the samples that count."""
    scores, _ = nets.forward(plan.model, arrays, images.astype(plan.dtype), plan.how)
    right = (scores.argmax(axis=1) == labels) & counted
    loss = jnp.where(counted, cross_entropy(scores, labels), 0)
    return jnp.stack([right.sum().astype(loss.dtype), loss.sum()])


def translated(
    plan: Plan, arrays: Mapping[str, Array], images: Array, labels: Array, counted: Array
) -> Array:
    """[0, sum of all that a net makes of the images]: nobody knows the right answer, and what is not asked
    for a program does not compute."""
    made, _ = nets.forward(plan.model, arrays, images.astype(plan.dtype), plan.how)
    total = made.sum(dtype=plan.dtype)
    return jnp.stack([jnp.zeros_like(total), total])


@dataclass(kw_only=True, slots=True)
class Scoring:
    """The program that scores a batch of one shape: the last is filled up, and what is over not counted.

    `arrays()` are parameters and running statistics as they are now. The test set comes as training's does.
    `score` is what the program does with a batch, as `scored`.
    """

    plan: Plan
    split: Split
    device: jax.Device
    arrays: Callable[[], Mapping[str, Array]]
    score: Score
    data: Arrays = field(default_factory=dict)
    program: Callable[..., Array] | None = None

    def evaluate(self, n: int | None) -> Evaluation:
        """At most `n` batches of the test set. Sums stay on the device until the last batch is under way."""
        self.compile()
        assert self.program is not None
        batch, known = self.plan.batch, self.split.known
        starts = range(0, self.split.n, batch)[:n]  # of which there is one at least
        sums = [self.program(self.arrays(), *self._given(start)) for start in starts]
        right, loss = (float(sum(each)) for each in zip(*jax.device_get(sums), strict=True))
        samples = min(self.split.n, len(starts) * batch)
        if not known.labelled or not samples:
            return Evaluation(steps=len(starts), samples=samples)
        return Evaluation(steps=len(starts), samples=samples, accuracy=right / samples, loss=loss / samples)

    def compile(self) -> None:
        if self.program is not None:
            return
        if self.plan.resident:
            self.data = input.resident(self.split, self.device, channels_last=self.plan.how.channels_last)
        self.program = self._score_resident if self.plan.resident else partial(self.score, self.plan)
        if self.plan.jitted:
            lowered = jax.jit(self.program).lower(self.arrays(), *self._given(0))
            self.program = lowered.compile()

    def _given(self, start: int) -> tuple[Any, ...]:
        if self.plan.resident:
            return self.data, jax.device_put(np.int32(start), self.device)
        rows = np.arange(start, start + self.plan.batch)
        images, labels = input.batch_of(
            self.split, np.minimum(rows, self.split.n - 1), None, channels_last=self.plan.how.channels_last
        )
        given: tuple[Any, ...] = jax.device_put((images, labels, rows < self.split.n), self.device)
        return given

    def _score_resident(self, arrays: Mapping[str, Array], data: Arrays, start: Array) -> Array:
        rows = start + jnp.arange(self.plan.batch, dtype=jnp.int32)
        images, labels = input.cut(data, rows[None], channels_last=self.plan.how.channels_last)
        return self.score(self.plan, arrays, images, labels, rows < self.split.n)
