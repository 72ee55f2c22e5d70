"""Saving and restoring all that a training depends on.

Knows nothing about how it is built. No random state: every draw is a function of (seed, epoch).
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from breakeven.errors import UserError
from breakeven.runtimes.torch.nets import declared_state
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
            "others": [optimizer.state_dict() for optimizer in training.others],
            "scaler": None if training.scaler is None else training.scaler.state_dict(),
            "epoch": training.course.epoch,
            "step": training.course.step,
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
    _load(training.optimizer, stored["optimizer"])
    for optimizer, state in zip(training.others, stored.get("others", ()), strict=True):
        _load(optimizer, state)
    if training.scaler is not None:
        training.scaler.load_state_dict(stored["scaler"])
    training.course.epoch, training.course.step = stored["epoch"], stored["step"]
    training.course.begun = False


def export(training: Training) -> dict[str, NDArray[np.float32]]:
    """The weights and the running statistics as they are now, by the names of the declared layers."""
    stored = training.net.state_dict()
    return {name: stored[name].detach().float().cpu().numpy() for name in declared_state(training.net)}


def _load(optimizer: torch.optim.Optimizer, stored: dict[str, Any]) -> None:
    """Into the tensors that are there, if there are any: a captured step reads and writes those, no others.

    The constants of the recipe stay, as they are the case's; the learning rate is set as an epoch begins.
    """
    if not optimizer.state:
        groups = [dict(group) for group in optimizer.param_groups]
        optimizer.load_state_dict(stored)
        for group, before in zip(optimizer.param_groups, groups, strict=True):
            group["lr"] = before["lr"]
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    with torch.no_grad():
        for index, values in stored["state"].items():
            for name, value in values.items():
                optimizer.state[parameters[index]][name].copy_(value)
