"""Saving and restoring all that a training depends on.

Knows nothing about how it is built. No random state: every draw is a function of (seed, epoch, step).
"""

from pathlib import Path

import jax
import numpy as np

from breakeven.errors import UserError
from breakeven.runtimes.jax import nets
from breakeven.runtimes.jax.training import Training
from breakeven.workloads.weights import Weights

FILE = "training.npz"


def save(training: Training, folder: Path) -> None:
    """Writes the carry, epoch and step. The file is replaced whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{FILE}.part"
    leaves = jax.device_get(jax.tree.leaves(training.carry))
    with part.open("wb") as file:
        np.savez(
            file, where=[training.epoch, training.step_number], **{f"a{i}": a for i, a in enumerate(leaves)}
        )
    part.replace(folder / FILE)


def restore(training: Training, folder: Path) -> None:
    """Goes on where `save` left off: the next step is the one that would have come then."""
    path = folder / FILE
    if not path.exists():
        raise UserError(f"nothing to resume in {folder}: no {FILE}")
    now, tree = jax.tree.flatten(training.carry)
    with np.load(path, allow_pickle=False) as stored:
        kept = [stored[f"a{index}"] for index in range(len(now))]
        training.epoch, training.step_number = stored["where"].tolist()
    training.carry = jax.device_put(jax.tree.unflatten(tree, kept), training.device)
    training.begun = False


def export(training: Training) -> Weights:
    """The weights and the running statistics as they are now, by the names of the declared layers."""
    arrays = {**training.carry["params"], **training.carry["buffers"]}
    found = nets.declared(arrays, channels_last=training.plan.how.channels_last)
    return found
