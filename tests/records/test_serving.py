"""The search for the greatest rate: planted capacities come back, whatever was stopped in between."""

import math
import random

import pytest

from breakeven.records.serving import STEP, Answer, Bounds, Trial, Wanted, next_trial

BOUNDS = Bounds(start=100.0, least=5.0, most=1600.0, processes=3)


def searched(holds, bounds=BOUNDS):
    """The answer of a search whose trials are judged by `holds(rate, purpose)`, and its trials."""
    trials: list[Trial] = []
    while isinstance(wanted := next_trial(trials, bounds), Wanted):
        held = holds(wanted.per_s, wanted.purpose)
        trials.append(Trial(per_s=wanted.per_s, held=held, purpose=wanted.purpose))
        assert len(trials) < 100
    return wanted, trials


@pytest.mark.parametrize("capacity", [5.0, 7.3, 60.0, 99.9, 100.0, 333.0, 1500.0])
def test_a_planted_capacity_is_found_within_a_step(capacity: float) -> None:
    answer, trials = searched(lambda rate, _: rate <= capacity)
    assert answer.kind == "found" and answer.per_s <= capacity < answer.failed <= STEP * answer.per_s * 1.001
    confirmed = [trial for trial in trials if trial.purpose == "confirm"]
    assert [trial.per_s for trial in confirmed] == [answer.per_s] * 3
    assert len(trials) - 3 <= 12


def test_none_and_beyond_are_answers() -> None:
    none, trials = searched(lambda rate, _: False)
    assert none == Answer(kind="none", failed=5.0) and trials[-1].per_s == 5.0
    beyond, trials = searched(lambda rate, _: True)
    assert beyond == Answer(kind="beyond", per_s=1600.0)
    assert [t.per_s for t in trials if t.purpose == "select"] == [100.0, 200.0, 400.0, 800.0, 1600.0]


def test_what_fresh_processes_do_not_confirm_is_not_the_answer() -> None:
    """Trials of the search are lucky: they hold up to 400, fresh processes up to 300."""
    answer, _ = searched(lambda rate, purpose: rate <= (400 if purpose == "select" else 300))
    assert answer.kind == "found" and 300 / STEP <= answer.per_s <= 300 < answer.failed
    answer, _ = searched(lambda rate, purpose: purpose == "select")
    assert answer.kind == "none"


def test_a_stopped_search_goes_on_where_it_was() -> None:
    _, trials = searched(lambda rate, _: rate <= 333)
    for end in range(len(trials)):
        wanted = next_trial(trials[:end], BOUNDS)
        assert wanted == Wanted(per_s=trials[end].per_s, purpose=trials[end].purpose)


def test_a_search_in_noise_ends() -> None:
    rng = random.Random(1)
    for _ in range(200):
        answer, _ = searched(lambda rate, _: rate < 333 * math.exp(rng.gauss(0, 0.1)))
        assert answer.kind == "found" and 333 / 1.8 < answer.per_s < 333 * 1.3


def waiting_longer(per_s: float, service_s: float, wait_s: float) -> float:
    """P(wait > t) of M/D/1 (Erlang 1909, Crommelin 1932): Poisson arrivals, one server, constant service."""
    if per_s * service_s >= 1:
        return 1.0
    terms = (
        (-per_s * (wait_s - k * service_s)) ** k
        / math.factorial(k)
        * math.exp(per_s * (wait_s - k * service_s))
        for k in range(int(wait_s / service_s) + 1)
    )
    return 1 - (1 - per_s * service_s) * math.fsum(terms)


def test_the_rate_of_a_queue_with_one_server_and_constant_service_is_found() -> None:
    """Trials of 3,000 simulated queries against the rate at which the formula keeps 99 % within the limit."""
    service_s, limit_s, rng = 0.002, 0.012, random.Random(7)

    def holds(per_s: float, _: str) -> bool:
        free = now = 0.0
        late = 0
        for _ in range(3000):
            now += rng.expovariate(per_s)
            free = max(free, now) + service_s
            late += free - now > limit_s
        return late <= 30

    low, high = 1.0, 1 / service_s
    for _ in range(60):
        middle = (low + high) / 2
        late = waiting_longer(middle, service_s, limit_s - service_s)
        low, high = (middle, high) if late <= 0.01 else (low, middle)
    bounds = Bounds(start=250.0, least=5.0, most=4000.0, processes=3)
    answer, _ = searched(holds, bounds)
    assert answer.kind == "found" and abs(answer.per_s / low - 1) < 0.1
