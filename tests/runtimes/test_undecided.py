"""Batches on which rounding decides a ReLU or a maximum: passed over only where the reference shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from breakeven.errors import Mismatch
from breakeven.runtimes.checks import HUGE, decided, turn
from breakeven.workloads import models, reference
from breakeven.workloads.layers import normed_away
from breakeven.workloads.splits import Split
from breakeven.workloads.tolerances import DRAWS, PARITY_BATCH, PUSH, parity_limits
from breakeven.workloads.weights import Weights, initial_weights, pushed

from . import jax_cases, tensorflow_cases, torch_cases

LIMITS = parity_limits("fp32", residual=False)
FINE = {"loss": 1e-8, "gradient": 1e-6}
SMALL = "simple-cnn-w0.25"


def told(found: list[Mapping[str, float]], turns: list[float], limits: Mapping[str, float] = LIMITS) -> Any:
    """(the check, how many batches were compared) of what the draws have planted."""
    seen: list[int] = []

    def compared(draw: int) -> Mapping[str, float]:
        seen.append(draw)
        return found[draw]

    return decided(limits, compared, lambda draw: turns[draw], "planted"), len(seen)


def test_a_batch_within_its_limits_is_the_only_one() -> None:
    made, n = told([FINE], [])
    assert made == {"asked": LIMITS, "found": FINE, "ok": True, "note": "planted"} and n == 1


def test_a_batch_on_which_the_reference_turns_as_far_is_passed_over_and_named() -> None:
    made, n = told([{"loss": 1e-8, "gradient": 3e-3}, FINE], [2.9e-3])
    assert made["ok"] and made["found"] == FINE and n == 2
    assert "undecided: 3.0e-03 (the reference itself turns by 2.9e-03" in made["note"]


@pytest.mark.parametrize(
    ("found", "turned"),
    [
        ({"loss": 1e-8, "gradient": 3e-3}, 1e-5),  # the reference is sure
        ({"loss": 1e-8, "gradient": 0.3}, 1e-2),  # it turns, but not as far
        ({"loss": 1e-4, "gradient": 3e-3}, 3e-3),  # a choice moves no loss
        ({"loss": 1e-8, "gradient": 3e-3, "worst": 1.0}, 3e-3),
        ({"loss": 1e-8, "gradient": float("nan")}, 3e-3),
        ({"loss": 1e-8, "gradient": HUGE}, 3e-3),
        ({"loss": 1e-8, "gradient": 3e-3}, float("nan")),
    ],
)
def test_what_no_choice_explains_fails_on_its_first_batch(found: dict[str, float], turned: float) -> None:
    limits = LIMITS | ({"worst": 0.9} if "worst" in found else {})
    made, n = told([found, FINE], [turned], limits)
    assert made["ok"] is False and made["found"] == found and n == 1


def test_a_fault_is_found_on_the_next_batch_and_batches_come_to_an_end() -> None:
    off = {"loss": 1e-8, "gradient": 3e-3}
    made, n = told([off, off], [3e-3, 1e-5])
    assert made["ok"] is False and n == 2
    made, n = told([off] * (DRAWS + 1), [3e-3] * (DRAWS + 1))
    assert made["ok"] is False and n == DRAWS


def test_a_push_is_of_each_weight_and_both_ways() -> None:
    weights = initial_weights(models.model(SMALL), 0)
    there, back = pushed(weights, PUSH), pushed(weights, -PUSH)
    for name, value in weights.items():
        moved, other = (one[name].astype(np.float64) - value for one in (there, back))
        most = np.abs(value).astype(np.float64) * PUSH
        assert there[name].dtype == np.float32 and (np.abs(moved) <= 1.1 * most).all()
        assert np.abs(moved + other).max() <= np.abs(value).max() * 2.0**-23  # what float32 rounds
        assert np.abs(moved).max() > 0.5 * most.max() or value.size < 20


def test_a_kink_turns_either_way_and_a_smooth_gradient_stays() -> None:
    """The gradient of relu(w x - 1) at w x = 1, by x."""
    weights = {"w": np.ones(1000, np.float32)}

    def kinked(pushed: Weights) -> Any:
        return np.where(pushed["w"] >= 1, pushed["w"], 0).astype(np.float64)

    assert turn(kinked, weights) > 0.5
    assert turn(lambda w: w["w"].astype(np.float64) ** 2, weights) < 4 * PUSH


def test_biases_that_batch_norm_takes_out_again_are_named() -> None:
    assert set(normed_away(models.model("conv6-seed").nodes)) == {f"conv{i}.bias" for i in (1, 2, 3)}
    assert not set(normed_away(models.model("vgg16").nodes))


def at_zero(split: Split) -> Weights:
    """Weights with which the first parity image leaves each hidden unit of SMALL at zero, to the last bit."""
    model = models.model(SMALL)
    weights = initial_weights(model, 0)
    images, _ = split.untied(PARITY_BATCH).first(PARITY_BATCH)
    hidden = reference.run(model.nodes[:-2], weights, images.astype(np.float64))
    bias = weights["classifier.0.bias"] - hidden[0]
    return weights | {"classifier.0.bias": bias.astype(np.float32)}


def sessions(runtime: str) -> tuple[Any, Any]:
    """(the runtime's module of checks, a session whose first parity batch is undecided)."""
    if runtime == "torch":
        from breakeven.runtimes.torch import checks, session

        built = session.build(torch_cases.case(SMALL, batch=32, residency="device"))
        return checks, dataclasses.replace(built, first_weights=at_zero(built.train))
    if runtime == "jax":
        pytest.importorskip("jax")
        from breakeven.runtimes.jax import checks as of_jax
        from breakeven.runtimes.jax import session as jax_session

        made = jax_session.build(jax_cases.train(residency="device"))
        return of_jax, dataclasses.replace(made, weights=at_zero(made.train[0]))
    pytest.importorskip("tensorflow")
    from breakeven.runtimes.tensorflow import checks as of_tensorflow
    from breakeven.runtimes.tensorflow import session as tensorflow_session

    other = tensorflow_session.build(tensorflow_cases.train(residency="device"))
    return of_tensorflow, dataclasses.replace(other, first_weights=at_zero(other.train[0]))


@pytest.mark.framework
@pytest.mark.parametrize("runtime", ["torch", "jax", "tensorflow"])
def test_units_at_zero_are_no_fault_of_a_runtime(runtime: str) -> None:
    checks, session = sessions(runtime)
    found = checks._parity(session, "fp32")
    assert found["ok"] and found["found"]["gradient"] < 1e-3
    assert "passed over as undecided" in found["note"]


@pytest.mark.framework
@pytest.mark.parametrize("runtime", ["torch", "jax", "tensorflow"])
def test_a_fault_is_found_behind_units_at_zero(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient alone is 0.2 % off, on the undecided batch and on those after it; the loss is right."""
    checks, session = sessions(runtime)
    fault = 1.002
    if runtime == "torch":
        import torch

        fresh = checks._fresh

        def faulty(session: Any, weights: Any = None) -> Any:
            net = fresh(session, weights)
            for parameter in net.parameters():
                parameter.register_hook(lambda g: g * fault)
            return net

        monkeypatch.setattr(checks, "_fresh", faulty)
        assert torch.is_grad_enabled()
    elif runtime == "jax":
        true = checks._differentiated

        def scaled(plan: Any, *given: Any) -> Any:
            loss, found = true(plan, *given)
            return loss, {k: g * (1 if plan.dtype == np.float64 else fault) for k, g in found.items()}

        monkeypatch.setattr(checks, "_differentiated", scaled)
    else:
        step = checks._step

        def off(session: Any, weights: Any, policy: str, *given: Any) -> Any:
            loss, found = step(session, weights, policy, *given)
            return loss, found * (1 if policy == "float64" else fault)

        monkeypatch.setattr(checks, "_step", off)
    found = checks._parity(session, "fp32")
    assert found["ok"] is False and found["found"]["gradient"] == pytest.approx(fault - 1, rel=0.1)
    assert "passed over as undecided" in found["note"]


@pytest.mark.framework
def test_checks_refuse_what_parity_says_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from breakeven.runtimes import load
    from breakeven.runtimes.torch import checks

    true = checks._fresh

    def faulty(session: Any, weights: Any = None) -> Any:
        net = true(session, weights)
        for parameter in net.parameters():
            parameter.register_hook(lambda g: g * 1.002)
        return net

    monkeypatch.setattr(checks, "_fresh", faulty)
    with pytest.raises(Mismatch, match="one_step_parity"):
        load("torch").prepare(torch_cases.case(SMALL, batch=32)).checks()
