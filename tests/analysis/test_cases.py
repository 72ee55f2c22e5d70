"""One case: which attempts enter, and that every number is the planted one."""

import dataclasses
import math
import random

import pytest

from breakeven import stats
from breakeven.records.case import Case
from breakeven.records.lines import Block, Check
from breakeven.workloads.costs import parameter_count, training_flops
from breakeven.workloads.models import model

from .conftest import (
    EPOCHS,
    STEPS,
    a_case,
    a_check,
    a_study,
    again,
    an_attempt,
    full,
    sampled,
    spread,
    understood,
)

CASE = a_case()


def test_step_and_rate_leave_out_warmup_and_boundary() -> None:
    (case,) = understood(spread(CASE, 20.0)).cases
    assert case.step_s is not None and case.samples_per_s is not None
    assert case.step_s.estimate == pytest.approx(0.020, rel=1e-9)
    assert case.samples_per_s.estimate == pytest.approx(128 / 0.020, rel=1e-9)
    assert case.processes == case.step_s.n == 3
    assert case.samples_s == pytest.approx((0.020,) * 3)


def test_the_rate_is_total_over_total_and_the_step_a_median() -> None:
    blocks = (Block(n_steps=1, samples=128, ns=10), Block(n_steps=1, samples=128, ns=20),
              Block(n_steps=8, samples=1024, ns=800))  # fmt: skip
    (case,) = understood(an_attempt(CASE, blocks=blocks)).cases
    assert case.step_point_s == pytest.approx(20e-9)
    assert case.samples_per_s_point == pytest.approx(1280 / 830e-9)


def test_one_process_has_a_point_and_no_interval() -> None:
    (case,) = understood(sampled(CASE, 0, 20.0)).cases
    assert case.step_s is case.samples_per_s is case.epoch_s is case.total_s is None
    assert case.step_point_s == pytest.approx(0.020)
    assert case.reasons["step_s"] == case.reasons["total_s"] == "one process"


def test_forecast_is_the_analytic_value() -> None:
    """start-up 2 s + cold 0.5 s + 10 ms more for the first evaluation
    + 3 epochs of (10 steps of 20 ms + 7 ms + 100 samples of 60 us)."""
    (case,) = understood(spread(CASE, 20.0)).cases
    assert case.epoch_point_s == pytest.approx(STEPS * 0.020 + 0.007, rel=1e-12)
    assert case.evaluation_s == pytest.approx(0.006, rel=1e-12)
    assert case.total_point_s == pytest.approx(2.51 + EPOCHS * (0.207 + 0.006), rel=1e-12)
    assert case.total_s is not None and case.total_s.contains(case.total_point_s or 0)
    assert (case.startup_s, case.cold_s) == pytest.approx((2.0, 0.5))


def test_a_boundary_faster_than_its_steps_stays_negative() -> None:
    steady = Block(n_steps=10, samples=1280, ns=200_000_000)
    quick = Block(n_steps=10, samples=1280, ns=190_000_000, boundary=True)
    (case,) = understood(sampled(CASE, 0, 20.0, blocks=(steady, quick))).cases
    assert case.epoch_point_s == pytest.approx(0.2 - 0.01)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"startup_ns": None}, "start-up was not timed"),
        ({"cold_ns": None, "nulls": {"cold_ns": "planted"}}, "planted"),
        ({"steps_per_epoch": None}, "the number of steps an epoch is not recorded"),
        ({"eval_blocks": ()}, "evaluation was not timed"),
        ({"blocks": (Block(n_steps=1, samples=128, ns=9),)}, "no change of epoch was timed"),
    ],
)
def test_what_is_missing_is_never_taken_for_zero(changes: dict[str, object], reason: str) -> None:
    (case,) = understood(sampled(CASE, 0, 20.0, **changes)).cases
    assert case.total_point_s is None and case.reasons["total_s"] == reason
    assert case.step_point_s is not None


def test_work_without_a_test_set_has_no_evaluation() -> None:
    (case,) = understood(sampled(CASE, 0, 20.0, eval_blocks=(), eval_samples=None)).cases
    assert case.total_point_s == pytest.approx(2.5 + EPOCHS * 0.207)


def test_short_epochs_hold_their_changes_in_the_steps() -> None:
    block = Block(n_steps=10, samples=1280, ns=200_000_000)
    (case,) = understood(sampled(CASE, 0, 20.0, blocks=(block,), flags=("short_epoch",))).cases
    assert case.epoch_point_s == pytest.approx(0.2)


def test_failed_attempts_are_counted_and_never_enter() -> None:
    failed = sampled(CASE, 3, 999.0, outcome="timeout", reason="too slow")
    (case,) = understood(spread(CASE, 20.0), failed).cases
    assert case.outcomes == {"ok": 3, "timeout": 1}
    assert case.step_point_s == pytest.approx(0.020)
    assert case.failure is None


def test_the_most_frequent_failure_is_named() -> None:
    endings = [("error", "boom"), ("oom", "no memory"), ("oom", "8 GiB asked for")]
    lines = [an_attempt(CASE, i, outcome=o, reason=why) for i, (o, why) in enumerate(endings)]
    (case,) = understood(lines).cases
    assert case.failure == "oom: 8 GiB asked for"
    assert case.processes == 0 and case.step_point_s is None
    assert case.reasons["step_s"] == "no process ended ok"


def test_the_latest_attempt_of_a_replicate_counts() -> None:
    lines = [sampled(CASE, 0, 99.0), sampled(CASE, 0, 20.0, attempt=1), sampled(CASE, 1, 20.0)]
    (case,) = understood(lines).cases
    assert case.processes == 2 and case.step_point_s == pytest.approx(0.020)


def test_attempts_that_chose_a_winner_are_no_estimate() -> None:
    chosen = spread(CASE, 10.0, purpose="select")
    assert understood(chosen).cases[0].reasons["step_s"] == "measured to select a winner only"
    # A candidate of a search is no failure: it is told as what it is, and no sentence counts it.
    found = understood(chosen, spread(a_case(device="cuda:0"), 20.0))
    flags = {q.flag: (q.cases, q.text) for q in found.quality}
    assert "failed" not in flags and flags["candidate"][0] == 1
    assert "only to choose it" in flags["candidate"][1]
    assert not any("gave no number" in sentence for sentence in found.sentences)
    (case,) = understood(chosen, spread(CASE, 20.0, purpose="confirm")).cases
    assert case.step_point_s == pytest.approx(0.020)


def test_an_interval_stays_within_one_unit() -> None:
    other = sampled(CASE, 3, 40.0, fingerprint_id="f1")
    (case,) = understood(spread(CASE, 20.0), other).cases
    assert case.processes == 3 and case.step_point_s == pytest.approx(0.020)


def test_a_refuted_case_has_no_numbers() -> None:
    check = Check(
        case_id=CASE.case_id, fingerprint_id="f0", started_utc="", outcome="output_mismatch", reason="NaN"
    )
    found = understood(spread(CASE, 20.0), check)
    (case,) = found.cases
    assert case.step_point_s is None and case.failure == "output_mismatch: NaN"
    assert case.outcomes == {"ok": 3, "output_mismatch": 1}


def test_no_steady_block_is_a_reason() -> None:
    (case,) = understood(an_attempt(CASE, blocks=(Block(n_steps=1, samples=128, ns=5, warmup=True),))).cases
    assert case.reasons["step_s"] == "no block after warm-up"


def test_flops_and_parameters_come_from_the_layers() -> None:
    (case,) = understood(spread(CASE, 20.0, parameters=None)).cases
    net = model("resnet18")
    assert case.parameters == parameter_count(net)
    assert case.flops_per_step == training_flops(net, 128)
    assert case.tflop_per_s == pytest.approx(training_flops(net, 128) / 0.020 / 1e12)


def test_an_unknown_model_keeps_its_measured_parameters() -> None:
    (case,) = understood(spread(a_case("their-own"), 20.0)).cases
    assert case.parameters == 1000 and case.flops_per_step is None
    assert "layers" in case.reasons["flops_per_step"]


def test_flags_are_united_and_counted() -> None:
    lines = spread(CASE, 20.0)
    lines = [
        again(line, flags=("contended",) if i else ("contended", "throttled")) for i, line in enumerate(lines)
    ]
    (case,) = understood(lines, a_check(CASE)).cases
    assert case.flags == ("contended", "throttled")
    assert case.flag_counts == {"contended": 3, "throttled": 1}


def test_a_wide_interval_is_not_converged() -> None:
    lines = [sampled(CASE, i, ms) for i, ms in enumerate((15.0, 20.0, 25.0))]
    study, check = a_study([CASE], {"relative_ci": 0.03}), a_check(CASE)
    assert understood(study, check, lines).cases[0].flags == ("not_converged",)
    assert understood(study, check, spread(CASE, 20.0)).cases[0].flags == ()


def test_what_no_check_on_this_machine_verified_says_so() -> None:
    """Without its line a failed check would be no check: the numbers of a wrong answer would stand."""
    lines = spread(CASE, 20.0)
    elsewhere = dataclasses.replace(a_check(CASE), fingerprint_id="f1")
    for checks in ([], [elsewhere], [a_check(CASE, "timeout")]):
        assert understood(lines, checks).cases[0].flag_counts == {"unchecked": 3}
    assert understood(lines, a_check(CASE, "timeout"), a_check(CASE)).cases[0].flags == ()


def test_memory_is_the_most_and_energy_the_mean_power_of_a_step() -> None:
    energy = {"scope": "gpu_board", "gross_j": 300.0, "window_ns": 1_000_000_000}
    lines = [sampled(CASE, i, 20.0, memory={"device_mib": 100.0 + i}, energy=energy) for i in range(3)]
    (case,) = understood(lines).cases
    assert case.memory_mib == {"device_mib": 102.0}
    assert case.power_w == pytest.approx(300.0) and case.energy_j_per_step == pytest.approx(6.0)


def test_unread_energy_has_a_reason() -> None:
    nulls = {"energy.cpu_packages_j": "no RAPL here", "energy.gross_j": "window too short"}
    (case,) = understood(spread(CASE, 20.0, nulls=nulls)).cases
    assert case.energy_j_per_step is None and case.reasons["energy_j_per_step"] == "window too short"


def test_the_interval_covers_the_planted_truth() -> None:
    """95 % nominal, 400 trials of 3 processes: 99.9 % of such counts lie in 365..393."""
    hits = 0
    for trial in range(400):
        step = understood(spread(CASE, 20.0, sd=0.05, seed=trial)).cases[0].step_s
        assert step is not None
        hits += step.contains(0.020)
    assert 365 <= hits <= 393


def test_two_tunings_under_one_name_are_told_apart() -> None:
    half = dataclasses.replace(CASE, tuning=dataclasses.replace(CASE.tuning, precision="bf16"))
    names = [c.tuning_name for c in understood(spread(CASE, 20.0), spread(half, 10.0)).cases]
    assert names == ["as-written precision=default", "as-written bf16"]


def test_full_run_totals_and_accuracy() -> None:
    lines = [full(CASE, i, train_s=1.0 + 0.1 * i, accuracy=0.90 + 0.01 * i) for i in range(3)]
    (case,) = understood(lines).cases
    assert case.full_points_s == pytest.approx((5.3, 5.6, 5.9))
    assert case.accuracies == pytest.approx((0.90, 0.91, 0.92))
    assert case.accuracy is not None and case.accuracy.estimate == pytest.approx(0.91)
    assert case.accuracy == stats.share_interval(91, 100)  # one seed: by the test images alone
    assert case.accuracy_over_seeds is None
    assert case.step_point_s is None and "full runs only" in case.reasons["step_s"]
    assert case.processes == 3 and case.region == "train_run"


def test_a_full_run_judges_the_forecast() -> None:
    (case,) = understood([sampled(CASE, i, 20.0 + 0.1 * i) for i in range(3)], full(CASE, train_s=0.3)).cases
    assert case.total_point_s is not None and case.forecast_error is not None
    assert case.forecast_error == pytest.approx(case.total_point_s / 3.2 - 1)
    assert case.total_s is not None
    assert (case.forecast_hits, case.forecast_judged) == (int(case.total_s.contains(3.2)), 1)


def test_each_run_judges_the_forecast_by_itself() -> None:
    """Naive: the mean of a run far above and one far below lies inside, so the forecast was right."""
    totals = (2.7, 3.152, 3.152**2 / 2.7)
    runs = [full(CASE, i, train_s=(total - 2) / 3 - 0.1) for i, total in enumerate(totals)]
    found = understood([sampled(CASE, i, 20.0 + 0.1 * i) for i in range(3)], *runs)
    (case,) = found.cases
    ahead = case.total_s
    assert ahead is not None and ahead.contains(stats.geometric_mean(case.full_points_s))
    assert [ahead.contains(total) for total in case.full_points_s] == [False, True, False]
    assert (case.forecast_hits, case.forecast_judged) == (1, 3)
    assert any("(1 of 3 runs inside its interval)" in line for line in found.sentences)


def test_a_forecast_holds_further_runs_as_often_as_it_says() -> None:
    """Planted: every process, sampled or whole, has a level of its own, 5 % apart."""
    rng, hits, judged = random.Random(3), 0, 0
    for _ in range(300):
        level = [math.exp(rng.gauss(0, 0.05)) for _ in range(5)]
        ahead = stats.prediction_interval(level[:3])
        assert ahead is not None
        hits, judged = hits + sum(map(ahead.contains, level[3:])), judged + 2
    assert 0.92 <= hits / judged <= 0.98


def seeded(seed: int) -> Case:
    return dataclasses.replace(CASE, work=dataclasses.replace(CASE.work, seed=seed))


def test_repeats_of_one_seed_are_no_spread_between_seeds() -> None:
    """Naive: three runs of one deterministic training, 89.8 % [89.8, 89.8]."""
    runs = [full(CASE, i, accuracy=0.898, eval_samples=10_000) for i in range(3)]
    (case,) = understood(runs).cases
    assert case.accuracy == stats.share_interval(8980, 10_000)
    assert case.accuracy is not None and case.accuracy.high - case.accuracy.low > 0.01
    assert case.accuracy_over_seeds is None
    (uncounted,) = understood([again(run, eval_samples=None) for run in runs]).cases
    assert uncounted.accuracy is None and "not counted" in uncounted.reasons["accuracy"]


def test_seeds_give_the_spread() -> None:
    planted = {0: 0.90, 1: 0.91, 2: 0.92}
    lines = [full(seeded(s), i, accuracy=a) for s, a in planted.items() for i in range(2)]
    found = understood(lines).cases
    assert [c.accuracy and c.accuracy.estimate for c in found] == pytest.approx(list(planted.values()))
    spread_of = {c.accuracy_over_seeds for c in found}
    assert spread_of == {stats.mean_interval(list(planted.values()))}


def test_a_resumed_run_is_joined_and_judges_nothing() -> None:
    first = full(CASE, epochs=[0, 1], outcome="interrupted", reason="stopped", flags=())
    last = full(CASE, epochs=[2], accuracy=0.95, attempt=1, continues=first.attempt_id)
    (case,) = understood(spread(CASE, 20.0), first, last).cases
    assert case.full_points_s == pytest.approx((2 * 2.0 + 3 * 1.1,))
    assert case.resumed_runs == 1 and case.full_s is None and "resumed" in case.reasons["full_s"]
    assert case.forecast_error is case.forecast_hits is None
    assert case.accuracies == (0.95,)


def test_a_run_without_an_end_shows_its_epochs_and_judges_nothing() -> None:
    """Two epochs, one more by the next process, then out of memory; replicate 1 ended and is none of them."""
    first = full(CASE, epochs=[0, 1], train_s=1.0, outcome="interrupted", reason="stopped")
    second = full(
        CASE, epochs=[2], train_s=2.0, accuracy=0.95, attempt=1, continues=first.attempt_id, outcome="timeout"
    )
    anew = full(CASE, epochs=[], attempt=2, outcome="error", reason="no such file")
    (case,) = understood(spread(CASE, 20.0), first, second, anew, full(CASE, 1, train_s=9.0)).cases
    (run,) = case.unfinished
    assert (run.replicate, run.epochs, run.of, run.accuracy, run.ended) == (0, 3, 3, 0.95, "timeout")
    assert run.seconds == pytest.approx(2 * 1.1 + 2.1)
    assert run.evidence == (first.attempt_id, second.attempt_id)
    assert len(case.full_points_s) == 1 and case.accuracies == (0.9,)
    # Once it has ended, its total and its accuracy say it.
    end = full(CASE, epochs=[2], attempt=3, continues=first.attempt_id)
    assert understood(spread(CASE, 20.0), first, end).cases[0].unfinished == ()
    synthetic = full(a_case(data="synthetic"), epochs=[0], outcome="interrupted")
    (case,) = understood(synthetic).cases
    assert [run.accuracy for run in case.unfinished] == [None]


def test_a_run_without_an_end_whose_beginning_is_lost_has_no_count() -> None:
    """What its last line holds is no count of the run's epochs, nor their time; how good it got still is."""
    second = full(CASE, epochs=[1], attempt=1, continues="gone", outcome="interrupted", reason="stopped")
    (run,) = understood(spread(CASE, 20.0), second).cases[0].unfinished
    assert (run.epochs, run.seconds, run.accuracy) == (None, None, 0.9)
    assert set(run.reasons.values()) == {"the line that the run continues is not in the file"}
    alone = full(CASE, epochs=[1], outcome="interrupted")
    (run,) = understood(alone).cases[0].unfinished
    assert (run.epochs, run.reasons["epochs"]) == (None, "an epoch of the run is missing")
    untimed = full(CASE, epochs=[0], outcome="interrupted")
    untimed = dataclasses.replace(
        untimed, epochs=tuple(dataclasses.replace(e, eval_ns=None) for e in untimed.epochs)
    )
    (run,) = understood(untimed).cases[0].unfinished
    assert (run.epochs, run.seconds, run.reasons) == (1, None, {"seconds": "an evaluation was not timed"})


def test_a_run_whose_beginning_is_lost_has_no_total() -> None:
    (case,) = understood(full(CASE, epochs=[2], attempt=1, continues="gone")).cases
    assert case.full_points_s == ()
    assert case.reasons["full_s"] == "the line that the run continues is not in the file"
    assert case.accuracies == (0.9,)


def test_a_line_that_continues_itself_ends() -> None:
    line = full(CASE)
    assert understood(again(line, continues=line.attempt_id)).cases[0].full_points_s == ()


def test_accuracy_of_synthetic_data_is_never_shown() -> None:
    (case,) = understood(full(a_case(data="synthetic"))).cases
    assert case.accuracies == () and case.accuracy is None
    assert "synthetic" in case.reasons["accuracy"]


def test_cases_of_an_older_study_are_hidden() -> None:
    old, new = a_case("simple-cnn"), CASE
    lines = [a_study([old, new]), spread(old, 5.0), a_study([new]), spread(new, 20.0)]
    found = understood(*lines)
    assert [c.case_id for c in found.cases] == [new.case_id] and found.hidden_cases == 1
    shown = understood(*lines, show_all=True)
    assert [c.in_study for c in shown.cases] == [True, False] and shown.hidden_cases == 0


def test_no_number_is_infinite() -> None:
    (case,) = understood(sampled(CASE, 0, 20.0, blocks=(Block(n_steps=1, samples=128, ns=0),))).cases
    assert case.step_point_s is None and "clock" in case.reasons["step_s"]
    assert all(math.isfinite(x) for x in (case.flops_per_step or 0, case.tflop_per_s or 0))


def test_a_total_is_of_a_first_run_whose_kernels_are_in_no_cache() -> None:
    """Builds of 16 s cold, then of 2 s warm; besides 2.51 s and three epochs of 0.213 s."""
    lines = [
        sampled(CASE, 0, 20.0, compile={"ns": 16_000_000_000, "cache_state": "cold"}),
        *(sampled(CASE, i, 20.0, compile={"ns": 2_000_000_000, "cache_state": "warm"}) for i in (1, 2)),
    ]
    (case,) = understood(*lines).cases
    assert case.total_point_s == pytest.approx(16 + 2.51 + EPOCHS * 0.213, rel=1e-12)
    assert case.total_s is not None and case.total_s.low > 19
