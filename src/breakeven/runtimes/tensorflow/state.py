"""Saving and restoring all that a training depends on.

Knows nothing about how it is built. No random state: every draw is a function of (seed, epoch).
"""

from pathlib import Path

import numpy as np

from breakeven.errors import UserError
from breakeven.runtimes.tensorflow.training import Training

FILE = "training.npz"


def save(training: Training, folder: Path) -> None:
    """Writes weights, statistics, moments, epoch and step. The file is replaced whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{FILE}.part"
    arrays = {f"v{index}": variable.numpy() for index, variable in enumerate(training.state)}
    with part.open("wb") as file:
        np.savez(file, where=[training.epoch, training.step_number], **arrays)
    part.replace(folder / FILE)


def restore(training: Training, folder: Path) -> None:
    """Goes on where `save` left off: the next step is the one that would have come then."""
    path = folder / FILE
    if not path.exists():
        raise UserError(f"nothing to resume in {folder}: no {FILE}")
    with np.load(path, allow_pickle=False) as stored:
        for index, variable in enumerate(training.state):
            variable.assign(stored[f"v{index}"])
        training.epoch, training.step_number = stored["where"].tolist()
    training.begun = False
