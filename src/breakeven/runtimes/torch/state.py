"""Saving and restoring all that a training depends on.

Knows nothing about how it is built. No random state: every draw is a function of (seed, epoch).
"""

from pathlib import Path

import torch

from breakeven.errors import UserError
from breakeven.runtimes.torch.training import Training

FILE = "training.pt"


def save(training: Training, folder: Path) -> None:
    """Writes weights, buffers, optimizer, epoch and step. The file is replaced whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{FILE}.part"
    torch.save(
        {
            "net": training.net.state_dict(),
            "optimizer": training.optimizer.state_dict(),
            "epoch": training.progress.epoch,
            "step": training.progress.step,
        },
        part,
    )
    part.replace(folder / FILE)


def restore(training: Training, folder: Path) -> None:
    """Goes on where `save` left off: the next step is the one that would have come then."""
    path = folder / FILE
    if not path.exists():
        raise UserError(f"nothing to resume in {folder}: no {FILE}")
    # To the CPU first: load_state_dict copies to where each tensor lives. weights_only: no code is run.
    stored = torch.load(path, map_location="cpu", weights_only=True)
    training.net.load_state_dict(stored["net"])
    training.optimizer.load_state_dict(stored["optimizer"])
    training.progress.epoch, training.progress.step = stored["epoch"], stored["step"]
    training.progress.begun = False
