"""CycleGAN as declared: sizes of its nets, costs of a whole step, its pools, orders and learning rate."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from breakeven.errors import UserError
from breakeven.records.case import Recipe
from breakeven.workloads import costs, cyclegan
from breakeven.workloads.models import model
from breakeven.workloads.schedule import learning_rate

IMAGE = (3, 128, 128)


def test_its_nets_have_the_parameters_of_the_authors_code() -> None:
    nets = cyclegan.nets(model("cyclegan", input_shape=IMAGE))
    counts = {name: costs.parameter_count(net) for name, net in nets.items()}
    assert counts == {"g_ab": 11_378_179, "g_ba": 11_378_179, "d_a": 2_764_737, "d_b": 2_764_737}
    assert costs.trained_parameter_count(model("cyclegan", input_shape=IMAGE)) == sum(counts.values())
    assert costs.parameter_count(model("cyclegan", input_shape=IMAGE)) == counts["g_ab"]


def test_a_generator_makes_an_image_and_a_discriminator_scores_of_patches() -> None:
    nets = cyclegan.nets(model("cyclegan", input_shape=IMAGE))
    assert costs.layer_costs(nets["g_ab"])[-1].out_shape == IMAGE
    # Of 256x256 pixels the paper's has 30x30 scores, of 128x128 then 14x14.
    assert costs.layer_costs(nets["d_a"])[-1].out_shape == (1, 14, 14)
    assert costs.layer_costs(cyclegan.nets(cyclegan.model((3, 256, 256)))["d_a"])[-1].out_shape == (
        1,
        30,
        30,
    )


def test_costs_of_a_step_by_hand() -> None:
    """Six generator passes, two of them with the gradient of what goes in; six of discriminators."""
    whole = model("cyclegan", input_shape=IMAGE)
    nets = cyclegan.nets(whole)
    one, judge = costs.forward_flops(nets["g_ab"]), costs.forward_flops(nets["d_a"])
    first = next(c.flops for c in costs.layer_costs(nets["g_ab"]) if c.flops)
    conv0 = next(c.flops for c in costs.layer_costs(nets["d_a"]) if c.flops)
    generators = 6 * 3 * one - 4 * first
    fooled = 2 * 2 * judge
    judged = 4 * 3 * judge - 4 * conv0
    assert costs.training_flops(whole, 2) == 2 * (generators + fooled + judged)
    assert costs.least_flops(whole, training=True) < costs.training_flops(whole)
    assert costs.training_bytes(whole) > 18 * costs.forward_bytes(nets["g_ab"]) / 2


def test_images_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match="multiples of 4"):
        model("cyclegan", input_shape=(3, 30, 32))
    with pytest.raises(UserError, match="too small"):
        model("cyclegan", input_shape=(3, 4, 4))


def test_no_two_nets_begin_alike() -> None:
    whole = cyclegan.model((3, 16, 16), base=4, blocks=1)
    made = cyclegan.first_weights(whole, 5)
    assert {name.split(".")[0] for name in made} == set(cyclegan.NETS)
    assert not np.array_equal(made["g_ab.down0.weight"], made["g_ba.down0.weight"])
    assert not np.array_equal(made["d_a.conv0.weight"], made["d_b.conv0.weight"])
    assert all(not tensor.any() for name, tensor in made.items() if name.endswith(".bias"))
    drawn = np.concatenate([t.ravel() for name, t in made.items() if name.endswith(".weight")])
    assert drawn.std() == pytest.approx(0.02, rel=0.02) and abs(drawn).max() <= np.float32(0.02 * 3**0.5)


def test_pools_swap_half_of_the_time_into_any_slot_and_do_not_depend_on_the_step() -> None:
    draws = cyclegan.pool_draws(0, 0, 0, 2000, 50)
    assert np.array_equal(draws[700:703], cyclegan.pool_draws(0, 0, 700, 3, 50))
    assert not np.array_equal(draws, cyclegan.pool_draws(0, 1, 0, 2000, 50))
    swap, slot = draws.T
    assert 0.45 < swap.mean() < 0.55 and set(slot) == set(range(50))
    assert not cyclegan.pool_draws(0, 0, 0, 3, 0).any()


def test_domains_have_orders_of_their_own() -> None:
    assert cyclegan.domain_seed(7, 0) == 7 != cyclegan.domain_seed(7, 1)


def test_the_rate_falls_linearly_after_half_of_the_epochs() -> None:
    """200 epochs as the authors': 2e-4 up to epoch 99, then 1/101 less each."""
    rates = [learning_rate(cyclegan.RECIPE, epoch) for epoch in range(200)]
    assert rates[:100] == [2e-4] * 100
    steps = -np.diff(rates[99:])
    assert steps == pytest.approx(np.full(100, 2e-4 / 101))
    assert rates[199] == pytest.approx(2e-4 / 101)


def test_other_schedules_are_as_before() -> None:
    recipe = Recipe(step_size=2, gamma=0.5, lr=1.0)
    assert [learning_rate(recipe, epoch) for epoch in range(5)] == [1, 1, 0.5, 0.5, 0.25]
    assert learning_rate(dataclasses.replace(recipe, schedule="constant"), 99) == 1.0
