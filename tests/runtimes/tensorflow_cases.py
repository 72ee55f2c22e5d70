"""Cases for the tests of the tensorflow runtime. Imports no framework."""

from __future__ import annotations

from typing import Any

from breakeven.records.case import Case, Device, Recipe

from . import inference_cases, torch_cases

SMALL = "simple-cnn-w0.25"

# Cases of one work that must train alike.
TUNINGS: dict[str, dict[str, Any]] = {
    "as-written": {},
    "workers": {"workers": 2},
    "on-device": {"residency": "device"},
    "no-sync": {"residency": "device", "loss_sync": "epoch"},
    "eager": {"execution": "eager"},
    "xla": {"residency": "device", "execution": "xla"},
}


def train(model: str = SMALL, *, recipe: Recipe | None = None, batch: int = 32, **tuning: Any) -> Case:
    """A training as people write it in TensorFlow, changed."""
    settings = {"execution": "tf.function", "layout": "channels-last", "optimizer_impl": None, **tuning}
    return torch_cases.case(model, batch=batch, recipe=recipe, runtime="tensorflow", **settings)


def infer(
    model: str = SMALL,
    *,
    data_set: str = "digits",
    batch: int = 4,
    device: Device | None = None,
    **tuning: Any,
) -> Case:
    return inference_cases.own_way(
        "tensorflow", model, data_set=data_set, batch=batch, device=device, **tuning
    )
