"""INT8 inference of convolutional nets on an NVIDIA GPU: ranges, plan and cuDNN's graphs of a case.

Knows nothing about how calls are timed. Ranges are the extremes over real images, found by the net in FP32 on
the GPU; the integers of every step are to be those of exact arithmetic on the CPU (`unlike` compares them).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from breakeven.errors import Unsupported, UserError
from breakeven.records.case import Case
from breakeven.runtimes.torch import cudnn_graphs, integer, precision
from breakeven.runtimes.torch.integer import Integer
from breakeven.workloads import calibration, data, fused, int8, witness
from breakeven.workloads.int8 import Plan
from breakeven.workloads.layers import Model
from breakeven.workloads.weights import Weights
from breakeven.workloads.witness import ANSWER, Witness

DEFAULT_RECIPE = "minmax/256/train"

CALIBRATION_BATCH = 32
"""Images at once: a range does not depend on it, memory does."""


@dataclass(kw_only=True, slots=True)
class Graphs:
    """The net of `plan` for batches of exactly `batch`; `build` comes before the first call.

    `convolution` makes a step for so many samples, and `follow` binds all of them to torch's current stream.
    """

    plan: Plan
    weights: Weights
    head: Mapping[str, torch.Tensor]
    batch: int
    device: torch.device
    convolution: Callable[[int8.Conv, int], tuple[integer.Convolve, cudnn_graphs.Planned]]
    follow: Callable[[], None]
    plans: dict[str, cudnn_graphs.Planned] = field(default_factory=dict)
    nets: list[Integer] = field(default_factory=list)

    def build(self) -> Mapping[str, Any]:
        """Makes and plans every graph; what runs: steps by form and by cuDNN's plan, bytes to work in."""
        steps: dict[str, integer.Convolve] = {}
        self.plans.clear()
        for made in self.plan.steps:
            if isinstance(made, int8.Conv):
                name = made.step.name
                steps[name], self.plans[name] = self.convolution(made, self.batch)
        self.nets[:] = [Integer(plan=self.plan, convolve=steps, head=self.head)]
        return {
            "forms": self.forms(),
            "plans": dict(Counter(plan.name for plan in self.plans.values())),
            "workspace_bytes": max(plan.workspace for plan in self.plans.values()),
        }

    def forms(self) -> dict[str, int]:
        """How many convolutions run in each form."""
        return dict(Counter(plan.form for plan in self.plans.values()))

    def net(self) -> Integer:
        """What runs, its kernels bound for torch's current stream."""
        self.follow()
        return self.nets[0]

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        return self.net()(images)

    def witness(self) -> float | None:
        """Share of outputs that are right where only int32 sums make them so; None: no layer can tell."""
        asked = witness.witness(self.plan)
        if asked is None:
            return None
        self.follow()
        convolve, _ = self.convolution(asked.conv, self.batch)
        return testified(asked, convolve, self.batch, self.device)


def quantised(
    case: Case, model: Model, weights: Weights, device: torch.device
) -> tuple[Graphs, dict[str, Any]]:
    """(the net, facts for the record). Raises Unsupported where that can't run here, with one line.

    What is missing is told before anything is computed.
    """
    recipe = case.tuning.calibration or DEFAULT_RECIPE
    try:
        known = data.entry(case.work.data)
        net = fused.fused(model)
        images = data.normalized(known, calibration.images(recipe, known))
        room = cudnn_graphs.room(device)
        made = planned(net, weights, images, device)
    except UserError as error:
        raise Unsupported(f"torch runtime: {error}") from error
    graphs = Graphs(
        plan=int8.padded(made, cudnn_graphs.CHANNELS),
        weights=weights,
        head=integer.head(net, weights, device),
        batch=case.work.batch,
        device=device,
        convolution=partial(cudnn_graphs.convolution, room),
        follow=room.follow,
    )
    return graphs, cudnn_graphs.versions(room.cudnn) | {
        "calibration": recipe,
        "calibration_images": len(images),
        "activations": "int8 symmetric per tensor",
        "weights": "int8 symmetric per channel",
        "float_layers": [type(node).__name__ for node in net.head],
    }


def planned(net: fused.Fused, weights: Weights, images: NDArray[np.float32], device: torch.device) -> Plan:
    """The net in int8 by the extremes of its values over `images`, in IEEE FP32 on `device`."""
    with precision.ieee_on(device.type):
        found = integer.reaches(net, weights, images, CALIBRATION_BATCH, device)
    return int8.plan(net, weights, found)


def unlike(net: Integer, images: torch.Tensor, samples: int) -> dict[str, float]:
    """Share of integers that are not those of exact arithmetic, by step; of the first `samples` images.

    Each step is computed again on the CPU from what the net itself gave it: a fault is told where it is made.
    """
    kept: dict[str, torch.Tensor] = {}
    found: dict[str, float] = {}
    planned_steps = {made.step.name: made for made in net.plan.steps if isinstance(made, int8.Conv)}
    with torch.inference_mode():
        for name, value in net.values(images):
            kept[name] = value[:samples].cpu()
        right = integer.quantised(images[:samples].cpu(), net.plan)
        found[fused.IMAGES] = _share(kept[fused.IMAGES], right)
        for step in net.plan.net.steps:
            if isinstance(step, fused.Pool):
                right = integer.pooled(kept[step.source], step.pool)
            else:
                added = None if step.residual is None else kept[step.residual]
                right = integer.exact(planned_steps[step.name])(kept[step.source], added)
            found[step.name] = _share(kept[step.name], right)
    return found


def testified(asked: Witness, convolve: integer.Convolve, batch: int, device: torch.device) -> float:
    """Share of the witness's outputs that are its answer."""
    values = torch.from_numpy(asked.values).to(device).view(1, -1, 1, 1)
    every = values.expand(batch, -1, *asked.conv.step.in_shape[1:]).contiguous(memory_format=integer.LAST)
    with torch.inference_mode():
        made = convolve(every, None)[:, :, asked.rows, asked.columns]
    return 1.0 - _share(made, torch.full_like(made, ANSWER))


def _share(found: torch.Tensor, right: torch.Tensor) -> float:
    return float((found != right).double().mean())
