"""One table of what a precision may do to a net's answers, and that each runtime holds its nets to it."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from breakeven.runtimes.inference.fidelity import fidelity
from breakeven.workloads.layers import Flatten, Linear, Model
from breakeven.workloads.tolerances import AGREEMENT, OUTPUT_ERROR, UNTRAINED_AGREEMENT, least_agreement

IMAGES = 100


def test_the_limits_of_every_precision_stand_in_one_order() -> None:
    assert list(AGREEMENT) == list(UNTRAINED_AGREEMENT) == list(OUTPUT_ERROR)
    for table in (AGREEMENT, UNTRAINED_AGREEMENT):
        assert list(table.values()) == sorted(table.values(), reverse=True)
    assert all(UNTRAINED_AGREEMENT[name] <= least for name, least in AGREEMENT.items())
    assert list(OUTPUT_ERROR.values()) == sorted(OUTPUT_ERROR.values())


def test_one_image_of_few_is_no_verdict() -> None:
    assert least_agreement("fp32", 64, trained=True) == 63 / 64
    assert least_agreement("int8", 1024, trained=True) == pytest.approx(0.8, abs=1e-3)
    assert least_agreement("int8", 1024, trained=False) == 0.5


@pytest.mark.parametrize(
    ("weights", "same", "ok"),
    [("sha256:0", 75, False), ("sha256:0", 83, True), (None, 75, True), (None, 40, False)],
)
def test_too_few_equal_answers_fail_a_case(weights: str | None, same: int, ok: bool) -> None:
    """A net that gives INT8's planted share of FP32's answers, its scores hardly off otherwise."""
    found = {name: check for name, _, check in fidelity(*_planted(weights, same))}
    agreement = found["agreement"]
    assert agreement["found"] == same / IMAGES and agreement["ok"] is ok
    assert agreement["asked"] == (0.8 if weights else 0.5)
    assert found["output_error"]["ok"]


def _planted(weights: str | None, same: int) -> Any:
    """Images of two pixels, their own scores and nearly tied; `run` turns the order of all but `same`."""
    images = np.tile(np.float32([1.0, 1.01]), (IMAGES, 1))
    layer = Linear(name="fc", in_features=2, out_features=2, bias=False)
    model = Model(name="two", num_classes=2, input_shape=(2, 1, 1), nodes=(Flatten(name="flat"), layer))
    inputs = SimpleNamespace(
        model=model,
        weights={"fc.weight": np.eye(2, dtype=np.float32)},
        batch=IMAGES,
        test=SimpleNamespace(labels=np.zeros(IMAGES, dtype=np.int64)),
        known=SimpleNamespace(name="planted", labelled=False),
        case=SimpleNamespace(work=SimpleNamespace(weights=weights, model="two")),
        images=lambda start, n: images[start : start + n],
    )

    def run(x: np.ndarray) -> np.ndarray:
        made = x.copy()
        made[same:] = made[same:, ::-1]
        return made

    return inputs, "int8", run, lambda x: x, IMAGES
