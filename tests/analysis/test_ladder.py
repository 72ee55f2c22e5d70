"""Ladders and their best: planted wins come back, what loses is not the best, what is missing says so."""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from breakeven import api
from breakeven.analysis.climbing import law_sentences
from breakeven.analysis.findings import MIXED, LadderFinding, Understanding
from breakeven.records import ladder
from breakeven.records.case import Case, Tuning
from breakeven.records.lines import Attempt, Purpose
from breakeven.runner.study import read_study
from breakeven.runtimes.sim import profile_of, truth_of
from breakeven.stats import Verdict
from breakeven.workloads.costs import parameter_count
from breakeven.workloads.models import model

from .conftest import a_case, a_check, a_study, again, an_attempt, sampled, spread, understood

# Milliseconds a step: workers lose, BF16 wins nothing.
GPU = {"as-written": 80.0, "workers": 88.0, "on-device": 20.0, "no-sync": 16.0, "cuda-graph": 4.0,
       "channels-last": 3.2, "bf16": 3.2, "compile": 2.0}  # fmt: skip
CPU = {"as-written": 200.0, "workers": 160.0, "on-device": 100.0, "no-sync": 100.0, "channels-last": 80.0,
       "compile": 50.0, "bf16": 60.0}  # fmt: skip


def climbed(
    times: Mapping[str, float], device: str = "cuda:0", sd: float = 0.0, n: int = 3, **changes: Any
) -> list[Attempt]:
    return [
        a
        for name, ms in times.items()
        for a in spread(a_case(device=device, tuning=name, **changes), ms, sd=sd, n=n, name=name)
    ]


def stack(removed: str, ms: float, device: str = "cuda:0", **changes: Any) -> list[Attempt]:
    kind = "cpu" if device == "cpu" else "cuda"
    case = a_case(device=device, tuning=ladder.less(removed.split(), kind))
    return spread(case, ms, name=ladder.less_name(removed.split(), kind), **changes)


def confirm(tuning: str | Tuning, ms: float, device: str = "cuda:0", **changes: Any) -> list[Attempt]:
    name = tuning if isinstance(tuning, str) else "mine"
    return spread(a_case(device=device, tuning=tuning), ms, purpose="confirm", name=name, **changes)


def asking(lines: list[Attempt]) -> Any:
    """The study that asks for the best of these cases, those that only chose or confirmed apart."""
    cases = {a.case_id: a.case for a in lines if a.purpose == "measure"}
    return a_study(list(cases.values()), {"tuning": [*GPU, "best"]})


def one(*lines: Any) -> LadderFinding:
    (found,) = understood(*lines).ladders
    return found


def test_every_planted_win_comes_back_in_the_order_of_the_ladder() -> None:
    found = one(climbed(dict(reversed(GPU.items()))))
    assert [step.name for step in found.steps] == list(GPU)
    times = list(GPU.values())
    assert found.steps[0].win is None and found.best == ()
    for step, before, here in zip(found.steps[1:], times, times[1:], strict=False):
        assert step.win is not None and step.win.ratio is not None
        assert step.win.ratio.estimate == pytest.approx(before / here)
        assert step.win.base_label == step.win.candidate_label == "cuda:0"
        assert set(step.evidence) < set(step.win.evidence)


def test_the_intervals_of_the_wins_cover_what_is_planted() -> None:
    """95 % nominal, 150 ladders of seven wins with 4 % between processes. Neighbours share a step, and the
    count's spread is at most that of 150 draws of all seven together: 0.95 +- 3 * 0.218 / sqrt(150).
    """
    times, hits = list(GPU.values()), []
    for trial in range(150):
        rng = random.Random(trial)
        lines = [
            sampled(a_case(device="cuda:0", tuning=name), i, ms * math.exp(rng.gauss(0, 0.04)), name=name)
            for name, ms in GPU.items()
            for i in range(3)
        ]
        wins = [step.win.ratio for step in one(lines).steps if step.win]
        hits += [
            win is not None and win.contains(before / here)
            for win, before, here in zip(wins, times, times[1:], strict=False)
        ]
    assert len(hits) == 150 * 7 and abs(statistics.fmean(hits) - 0.95) < 3 * 0.218 / math.sqrt(150)


def test_a_win_over_steps_that_nobody_measured_is_theirs_too() -> None:
    """Naive: "compilation wins 10x", of which a CUDA graph, two more steps and itself have their share."""
    found = understood(climbed({name: GPU[name] for name in ("as-written", "on-device", "compile")}))
    steps = {step.name: step for step in found.ladders[0].steps}
    assert steps["on-device"].along == ("workers",)
    assert steps["compile"].along == ("no-sync", "cuda-graph", "channels-last", "bf16")
    text = next(line for line in found.sentences if line.startswith("resnet18 on cuda:0"))
    assert "workers to on-device (2 steps at once) win 4" in text and "compilation" not in text
    assert all(step.along == () for step in one(climbed(GPU)).steps)


def test_a_losing_step_stays_and_is_marked() -> None:
    found = one(climbed(GPU))
    verdicts = {step.name: step.win.verdict for step in found.steps if step.win}
    assert (verdicts["workers"], verdicts["bf16"]) == (Verdict.SLOWER, Verdict.SAME)
    assert [step.name for step in found.steps if step.loses] == ["workers"]


def test_the_cpu_climbs_its_own_ladder() -> None:
    found = one(climbed(CPU, "cpu"))
    assert [step.name for step in found.steps] == list(CPU)
    assert [step.name for step in found.steps if step.loses] == ["bf16"]
    assert found.steps[-1].win is not None and found.steps[-1].win.tuning_base == "compile"


def test_a_missing_step_has_no_win_and_lends_none_to_the_next() -> None:
    lines = climbed(GPU)
    study = a_study(list({a.case_id: a.case for a in lines}.values()))
    found = one(study, [a for a in lines if a.tuning_name != "cuda-graph"])
    steps = {step.name: step for step in found.steps}
    assert list(steps) == list(GPU)
    assert steps["cuda-graph"].reasons == {
        "step_s": "not measured yet",
        "win": "not measured yet: cuda-graph",
    }
    assert steps["channels-last"].win is None and steps["channels-last"].point_s is not None
    assert steps["channels-last"].reasons["win"] == "not measured yet: cuda-graph"
    assert steps["bf16"].win is not None


def test_a_failed_step_says_why() -> None:
    lines = [a for a in climbed(GPU) if a.tuning_name != "cuda-graph"]
    lines.append(an_attempt(a_case(device="cuda:0", tuning="cuda-graph"), name="cuda-graph", outcome="oom"))
    steps = {step.name: step for step in one(lines).steps}
    assert steps["cuda-graph"].reasons["step_s"] == "oom"
    assert "oom" in steps["channels-last"].reasons["win"] and not steps["channels-last"].loses


def test_steps_that_nobody_asked_for_are_no_gap() -> None:
    """A win is over the step before that the study has; which one that is stands with it."""
    wanted = ("as-written", "on-device", "channels-last")
    found = one(climbed({name: GPU[name] for name in wanted}))
    assert [step.win.tuning_base for step in found.steps if step.win] == ["as-written", "on-device"]


def test_two_tunings_are_no_ladder() -> None:
    assert understood(climbed({name: GPU[name] for name in ("as-written", "on-device")})).ladders == ()


def test_a_step_of_one_process_has_no_interval_and_no_verdict() -> None:
    found = one([a for a in climbed(GPU) if a.replicate == 0])
    assert all(s.win and s.win.ratio is None and s.win.point and not s.loses for s in found.steps[1:])
    assert "one process" in found.steps[1].reasons["win"]


def test_leave_one_out_says_what_each_step_is_worth_at_the_top() -> None:
    found = one(climbed(GPU), stack("bf16", 3.0), stack("channels-last", 1.8), stack("on-device", 30.0))
    worth = {step.name: step.win for step in found.without}
    # Without the last step it is the preset before it.
    assert list(worth) == ["on-device", "channels-last", "bf16", "compile"]
    ratios = {name: win.ratio.estimate for name, win in worth.items() if win and win.ratio}
    assert ratios == pytest.approx(
        {"on-device": 15.0, "channels-last": 0.9, "bf16": 1.5, "compile": 1.6}, rel=1e-6
    )
    assert {step.name for step in found.without if step.loses} == {"channels-last"}


def test_leave_one_out_is_no_question_between_devices() -> None:
    both = [a for device in ("cpu", "cuda:0") for a in stack("channels-last", 3.0, device)]
    assert understood(both, climbed(GPU), climbed(CPU, "cpu")).ratios != ()
    assert all(
        "less" not in r.tuning_name for r in understood(both, climbed(GPU), climbed(CPU, "cpu")).ratios
    )


def test_holm_runs_over_one_ladder_apart_from_what_devices_are_compared_by() -> None:
    def p_of(*lines: list[Attempt]) -> float:
        found = next(x for x in understood(*lines).ladders if x.device_label == "cuda:0")
        win = found.steps[2].win
        assert win is not None and win.p_adjusted is not None
        return win.p_adjusted

    noisy = climbed(GPU, sd=0.05)
    alone = p_of(noisy)
    assert p_of(noisy, climbed(CPU, "cpu", sd=0.05)) == alone
    # Three steps are two tests, eight are seven.
    few = p_of([a for a in noisy if a.tuning_name in list(GPU)[:3]])
    assert few < alone <= 7 / 2 * few * (1 + 1e-9)


# --- the best


def test_the_best_is_timed_by_what_confirms_alone() -> None:
    lines = climbed(GPU) + stack("bf16", 2.5, purpose="select", n=1)
    lines += stack("bf16", 2.6, purpose="confirm") + confirm("as-written", 78.0) + confirm("compile", 2.08)
    same, best = one(asking(lines), lines).best
    assert (same.numerics, same.tuning_name, same.precision) == ("same", "compile less bf16", "default")
    assert (best.numerics, best.tuning_name, best.precision) == ("any", "compile", "bf16")
    assert same.candidates == best.candidates == 9
    for found, ms in ((same, 2.6), (best, 2.08)):
        assert found.step_s is not None and found.step_s.estimate == pytest.approx(ms / 1e3)
        assert found.win is not None and found.win.ratio is not None
        assert found.win.ratio.estimate == pytest.approx(78.0 / ms)
        assert all("/confirm/" in line for line in found.evidence)
        assert not any("/confirm/" in line for line in found.chosen)


def test_a_disturbed_confirmation_is_flagged_and_has_no_verdict() -> None:
    lines = climbed(GPU) + confirm("as-written", 80.0, flags=("contended",)) + confirm("channels-last", 3.2)
    same = one(asking(lines), lines).best[0]
    assert "contended" in same.flags and same.win is not None
    assert same.win.ratio is not None and same.win.verdict is None
    assert "something else used the machine" in same.win.reasons["verdict"]


def test_a_losing_step_is_not_in_the_best() -> None:
    lines = climbed(CPU, "cpu") + confirm("as-written", 200.0, "cpu") + confirm("compile", 50.0, "cpu")
    same, best = one(asking(lines), lines).best
    assert same.tuning_name == best.tuning_name == "compile" and same.case_id == best.case_id


def test_what_was_chosen_and_not_measured_again_has_a_name_and_no_time() -> None:
    lines = climbed(GPU)
    same, best = one(asking(lines), lines).best
    assert (same.tuning_name, best.tuning_name) == ("channels-last", "compile")
    assert same.step_s is best.point_s is best.win is None
    assert best.reasons["step_s"] == "chosen, and not measured again yet"
    assert understood(asking(lines), lines).sentences


def test_a_stale_confirmation_is_not_the_best() -> None:
    """More processes changed the choice: what was confirmed before is another case's number."""
    lines = climbed(GPU) + confirm("as-written", 80.0) + confirm("channels-last", 3.2) + confirm("bf16", 3.0)
    same, best = one(asking(lines), lines).best
    assert same.point_s == pytest.approx(0.0032)
    assert best.tuning_name == "compile" and best.point_s is None


def test_a_candidate_that_only_chose_is_no_case_and_a_winner_is_one() -> None:
    tried, won = (
        stack("bf16", 2.5, purpose="select", n=1),
        stack("on-device bf16", 1.9, purpose="select", n=1),
    )
    lines = climbed(GPU) + tried + won + stack("on-device bf16", 1.9, purpose="confirm")
    found = understood(asking(lines), lines)
    names = {case.tuning_name: case for case in found.cases}
    assert "compile less bf16" not in names
    case = names["compile less on-device, bf16"]
    assert case.in_study and case.step_s is not None and case.step_s.estimate == pytest.approx(0.0019)
    assert not any(q.flag == "failed" for q in found.quality) and found.hidden_cases == 0


def both() -> list[Attempt]:
    lines = climbed(GPU) + climbed(CPU, "cpu")
    for device, times, tunings in (
        ("cuda:0", GPU, ("as-written", "channels-last", "compile")),
        ("cpu", CPU, ("as-written", "compile")),
    ):
        lines += [a for name in tunings for a in confirm(name, times[name], device)]
    return lines


def test_three_ratios_and_the_one_that_papers_quote() -> None:
    lines = both()
    found = understood(asking(lines), lines)
    ratios = {r.contrast: r for r in found.ratios if r.contrast != "tuning"}
    assert {name: r.point for name, r in ratios.items()} == pytest.approx(
        {"best": 50 / 3.2, "best-any": 50 / 2, "mixed": 200 / 2}
    )
    assert ratios["mixed"].setting == MIXED and "not a comparison of hardware" in MIXED
    assert (ratios["mixed"].tuning_base, ratios["mixed"].tuning_name) == ("as-written", "compile")
    assert ratios["best-any"].mixed and ratios["best-any"].precision_candidate == "bf16"
    for ratio in ratios.values():
        assert ratio.verdict is Verdict.FASTER and all("/confirm/" in line for line in ratio.evidence)
    plain = next(r for r in found.ratios if r.contrast == "tuning" and r.tuning_name == "as-written")
    assert plain.point == pytest.approx(2.5) and not any("/confirm/" in line for line in plain.evidence)


def test_the_ratios_of_the_best_belong_to_the_family_of_the_file() -> None:
    noisy = [again(a, blocks=sampled(a.case, a.replicate, ms).blocks) for a, ms in _shaken(both(), 0.05)]
    with_best, without = (
        understood(asking(lines), lines).ratios
        for lines in (noisy, [a for a in noisy if a.purpose == "measure"])
    )
    first, alone = with_best[0].p_adjusted, without[0].p_adjusted
    assert first is not None and alone is not None and first > alone


def _shaken(lines: list[Attempt], sd: float) -> list[tuple[Attempt, float]]:
    """Every attempt with another step time: `sd` on the log scale, from process to process."""
    rng = random.Random(1)
    return [(a, a.blocks[-2].ns / a.blocks[-2].n_steps / 1e6 * math.exp(rng.gauss(0, sd))) for a in lines]


def test_without_a_confirmed_base_there_is_no_best_to_best() -> None:
    lines = [a for a in both() if a.device.kind != "cpu" or a.purpose == "measure"]
    assert {r.contrast for r in understood(asking(lines), lines).ratios} == {"tuning"}


def test_the_winner_s_curse_is_planted_and_does_not_reach_the_best() -> None:
    """Six equal tunings, 5 % between processes, 100 studies: the least of six normals lies 1.267 standard
    deviations low on average (Tippett 1925), here of means of three; fresh processes lie at the truth.
    """
    chosen, confirmed = [], []
    for trial in range(100):
        rng = random.Random(trial)
        names = [name for name in GPU if name not in ("bf16", "compile")]
        cases = {name: a_case(device="cuda:0", tuning=name) for name in names}

        def lines(case: Case, name: str, purpose: Purpose, rng: random.Random = rng) -> list[Attempt]:
            return [
                sampled(case, i, 10.0 * math.exp(rng.gauss(0, 0.05)), purpose=purpose, name=name)
                for i in range(3)
            ]

        made = [a for name, case in cases.items() for a in lines(case, name, "measure")]
        made += [a for name, case in cases.items() for a in lines(case, name, "confirm")]
        found = one(asking(made), made)
        best = found.best[0]
        step = next(step for step in found.steps if step.case_id == best.case_id)
        assert step.point_s is not None and best.point_s is not None
        chosen.append(math.log(step.point_s / 0.010))
        confirmed.append(math.log(best.point_s / 0.010))
    # The least of six has a standard deviation of 0.645; both bounds are three standard errors of 100 trials.
    assert statistics.fmean(chosen) == pytest.approx(
        -1.267 * 0.05 / math.sqrt(3), abs=3 * 0.645 * 0.05 / math.sqrt(3 * 100)
    )
    assert abs(statistics.fmean(confirmed)) < 3 * 0.05 / math.sqrt(3 * 100)


# --- laws and words

MODELS = ("simple-cnn", "resnet18", "resnet50")


def law_of(**exponents: float) -> Understanding:
    """Three models whose ratios go with size as planted: as written, best to best, mixed."""
    lines: list[Attempt] = []
    for name in MODELS:
        size = parameter_count(model(name))
        gain = {key: (size / 1e6) ** power for key, power in exponents.items()}
        # cpu as written / gpu as written, cpu best / gpu best; mixed is what follows from the first three.
        times = {
            ("cpu", "as-written"): 100.0,
            ("cuda:0", "as-written"): 100.0 / (2 * gain["written"]),
            ("cuda:0", "channels-last"): 100.0 / (90 * gain["mixed"]),
        }
        times["cpu", "channels-last"] = times["cuda:0", "channels-last"] * 20 * gain["best"]
        for (device, tuning), ms in times.items():
            case = a_case(name, device, tuning)
            lines += spread(case, ms, name=tuning, parameters=size)
            lines += spread(case, ms, name=tuning, parameters=size, purpose="confirm")
    return understood(asking(lines), lines)


def test_the_exponent_turns_round_with_the_tuning() -> None:
    """One machine, one recipe, three laws: rising, steeply rising and falling."""
    planted = {"written": 0.2, "best": 0.3, "mixed": -0.1}
    found = law_of(**planted)
    laws = {s.tuning_name: s for s in found.scale if s.against == "parameters"}
    for name, key in (("as-written", "written"), ("best (same numerics)", "best"), (MIXED, "mixed")):
        exponent = laws[name].exponent
        assert exponent is not None and exponent.estimate == pytest.approx(planted[key], abs=1e-6)
        assert laws[name].verdict == ("grows" if planted[key] > 0 else "shrinks")
    (sentence,) = law_sentences(found.scale, 157)
    assert "grows as written (exponent 0.2" in sentence and "best to best (0.3" in sentence
    assert "shrinks against an untuned cpu (-0.1" in sentence


def test_one_sentence_a_model_says_what_held_it_back() -> None:
    lines = [again(a, blocks=sampled(a.case, a.replicate, ms).blocks) for a, ms in _shaken(both(), 0.002)]
    said = understood(asking(lines), lines).sentences
    assert said[0].startswith("cuda:0 against cpu: 2.5") and "tuned against untuned" in said[0]
    assert said[1].startswith("resnet18 on cuda:0: data on the device wins 4x over as-written")
    assert "a CUDA graph 4x; best is channels-last, 16x" in said[1]
    assert "cpu's best" in said[1]
    assert all(len(line) <= 160 for line in said)


def test_a_losing_step_is_said_where_there_is_room() -> None:
    lines = climbed(CPU, "cpu", sd=0.001)
    said = understood(asking(lines), lines).sentences
    assert any("; BF16 loses; the best, compile, is not measured again yet." in line for line in said)


def test_a_win_that_undoes_a_loss_is_told_against_the_best_before() -> None:
    """Planted: compilation costs what BF16 then wins back. Naive: "BF16 wins 1.43x"."""
    times = {"as-written": 50.0, "on-device": 50.0, "channels-last": 50.0, "compile": 71.5, "bf16": 50.0}
    found = understood(climbed(times, "cpu", sd=0.01))
    steps = {step.name: step for step in found.ladders[0].steps}
    last = steps["bf16"]
    assert last.win is not None and last.win.verdict is Verdict.FASTER
    assert last.over_best is not None and last.over_best.ratio is not None
    assert last.over_best.ratio.estimate == pytest.approx(1.0, abs=0.05)
    assert last.best_before in ("as-written", "on-device", "channels-last")
    text = " ".join(found.sentences)
    assert "no step surely beats the best before it; BF16: " in text and "BF16 wins" not in text


def test_a_win_beyond_a_loss_is_what_is_left_of_it() -> None:
    times = {"as-written": 50.0, "on-device": 50.0, "channels-last": 50.0, "compile": 75.0, "bf16": 25.0}
    text = " ".join(understood(climbed(times, "cpu", sd=0.003)).sentences)
    assert "BF16 wins 2" in text and "BF16 wins 3" not in text


def test_a_ladder_without_wins_is_said_to_have_none() -> None:
    found = understood(climbed(dict.fromkeys(GPU, 10.0)))
    assert any("no step of the ladder wins for sure" in line for line in found.sentences)


# --- the whole way, on simulated devices

QUIET = "noise=0.0002:process=0.0002:drift=1"


@pytest.fixture(scope="module")
def climbed_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ladder")
    text = f"""
model: simple-cnn
device: ["sim:cpu:{QUIET}", "sim:gpu:{QUIET}"]
tuning: [ladder, leave-one-out, best]
attempt_time: 4
max_replicates: 3
"""
    assert api.measure(read_study(text, "ladder.yaml"), folder).stopped is None
    return folder


@pytest.mark.slow
def test_a_measured_ladder_finds_what_is_planted(climbed_study: Path) -> None:
    """Launches, input, layout, compiler and BF16, each in its step; what is left is the change of epochs."""
    results = api.read(climbed_study)
    found = api.understand([results])
    truth = {a.case_id: truth_of(a.case, profile_of(a.device)).step_ns for a in results.attempts}
    wins = [
        step.win
        for one in found.ladders
        for step in (*one.steps, *one.without, *one.best)
        if step.win is not None
    ]
    wins += [ratio for ratio in found.ratios if ratio.contrast != "tuning"]
    assert len(wins) > 30
    for win in wins:
        assert win.point == pytest.approx(truth[win.base_id] / truth[win.candidate_id], rel=0.01)


@pytest.mark.slow
def test_bf16_loses_where_that_is_planted_and_stays_out_of_the_best(climbed_study: Path) -> None:
    found = api.understand([api.read(climbed_study)])
    slow, fast = found.ladders
    for one, planted in ((slow, True), (fast, False)):
        steps = {step.name: step for step in one.steps}
        assert steps["bf16"].loses is planted and steps["compile"].point_s is not None
        assert next(step for step in one.without if step.name == "bf16").loses is planted
    assert {(b.tuning_name, b.precision) for b in slow.best} == {("compile less bf16", "default")}
    assert [b.precision for b in fast.best] == ["default", "bf16"]


def test_the_best_of_each_batch_has_a_break_even_of_its_own() -> None:
    """As written the GPU is level at a batch of 2, best against best at half a sample: always ahead."""
    times = {
        "cpu": {"as-written": 10.0, "on-device": 8.0},
        "cuda:0": {"as-written": 20.0, "on-device": 4.0},
    }
    lines = []
    for batch in (1, 4, 8):
        for device, mine in times.items():
            scale = float(batch) if device == "cpu" else 1.0
            for name, ms in mine.items():
                case = a_case(device=device, tuning=name, batch=batch)
                lines += spread(case, scale * ms, name=name)
                lines += spread(case, scale * ms, name=name, purpose="confirm")
    curves = {f.tuning_name: f for f in understood(asking(lines), lines).break_even}
    assert MIXED not in curves
    assert curves["as-written"].answer == "between" and curves["as-written"].at == pytest.approx(2.0)
    assert curves["best (same numerics)"].answer == "always"
    assert len(curves["best (same numerics)"].points) == 3


def built(attempt: Attempt, seconds: float | None, cold: bool = True) -> Attempt:
    """The attempt with a build of so many seconds; that of a compiler is cold or warm."""
    if seconds is None:
        return attempt
    state = ("cold" if cold else "warm") if attempt.tuning_name == "compile" else None
    made = {"ns": int(1e9 * seconds), "captured": True, "cache_state": state}
    return dataclasses.replace(attempt, compile=made)


def test_a_build_has_a_cost_and_a_number_of_steps_that_pay_it_back() -> None:
    """Planted: a capture of 0.3 s saves 12 ms a step, a cold compiler of 30 s another 1.2 ms."""
    seconds = {"cuda-graph": 0.3, "channels-last": 0.3, "bf16": 0.3, "compile": 30.3}
    lines = [built(a, seconds.get(a.tuning_name or ""), a.replicate == 0) for a in climbed(GPU, n=3)]
    # A warm compiler takes a second: naive, the mean over processes says 10.8 s, which nobody ever waits for.
    lines = [
        dataclasses.replace(a, compile=a.compile | {"ns": int(1e9)})
        if a.compile and a.compile["cache_state"] == "warm"
        else a
        for a in lines
    ]
    (found,) = understood(lines).ladders
    steps = {step.name: step for step in found.steps}
    assert steps["no-sync"].build_s is None and steps["no-sync"].pays_back is None
    graph, compiled = steps["cuda-graph"], steps["compile"]
    assert graph.build_s == pytest.approx(0.3) and graph.build_state is None
    assert graph.pays_back is not None and graph.pays_back.estimate == pytest.approx(0.3 / 12e-3)
    assert compiled.build_s == pytest.approx(30.3) and compiled.build_state == "cold"
    assert compiled.pays_back is not None
    assert compiled.pays_back.estimate == pytest.approx(30.0 / 1.2e-3)
    assert "takes no longer" in steps["channels-last"].reasons["pays_back"]


@pytest.mark.parametrize(("ms", "why"), [(5.0, "never"), (3.2, "cannot be told")])
def test_a_build_that_wins_nothing_never_pays_back(ms: float, why: str) -> None:
    lines = climbed(GPU | {"compile": ms}, sd=0.02, n=5)
    lines = [built(a, 10.0 if a.tuning_name == "compile" else None) for a in lines]
    (found,) = understood(lines).ladders
    step = found.steps[-1]
    assert step.name == "compile" and step.pays_back is None and why in step.reasons["pays_back"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"flags": ("contended",)}, "something else used the machine"),
        ({"hashes": {"weights": "w1", "order": "o0", "augment": "a0"}}, "unequal work"),
        ({"fingerprint_id": "f1"}, "different machines"),
    ],
)
def test_what_forbids_a_win_forbids_its_pay_back(changes: dict[str, Any], why: str) -> None:
    """Naive: the compiler of a step that did other work, or beside a neighbour, pays back all the same."""
    lines = [built(a, 10.0 if a.tuning_name == "compile" else None) for a in climbed(GPU, sd=0.01)]
    lines = [again(a, **changes) if a.tuning_name == "compile" else a for a in lines]
    step = one(lines).steps[-1]
    assert step.build_s == pytest.approx(10.0)
    assert step.pays_back is None and why in step.reasons["pays_back"]


def test_a_cold_build_is_not_set_against_a_warm_one() -> None:
    """Naive: the step before compiled in 20 s on a cold cache, so a warm 1 s "takes no longer"."""
    cold = {"ns": 20 * 10**9, "cache_state": "cold"}
    lines = [again(a, compile=cold) if a.tuning_name == "bf16" else a for a in climbed(GPU)]
    lines = [built(a, 1.0, cold=False) if a.tuning_name == "compile" else a for a in lines]
    step = one(lines).steps[-1]
    assert step.pays_back is None and "warm" in step.reasons["pays_back"]


def both_best(flags: tuple[str, ...], gpu_ms: float = 9.0) -> str:
    """What is said of a CPU and a GPU whose best is `on-device`, confirmed in processes with `flags`."""
    lines: list[Attempt] = []
    for device, scale, best in (("cpu", 1.0, 90.0), ("cuda:0", 0.1, gpu_ms)):
        tried = {"as-written": 200 * scale, "workers": 150 * scale, "on-device": 90 * scale}
        lines += climbed(tried, device, sd=0.01)
        lines += confirm("as-written", 200 * scale, device, sd=0.01)
        lines += [again(a, tuning_name="on-device") for a in confirm("on-device", best, device, sd=0.01)]
    lines = [again(a, flags=flags) for a in lines]
    return " ".join(understood(asking(lines), *lines).sentences)


def test_what_has_no_verdict_is_no_span_and_no_best_of_another() -> None:
    """Naive: "10.0x as written, 10.0x best to best", all of it beside a neighbour."""
    assert "best to best" in both_best(()) and "10.1x [9.7, 10.6] cpu's best" in both_best(())
    shared = both_best(("contended",))
    assert "best to best" not in shared and "x [9.7, 10.6]" not in shared


def test_a_best_that_loses_when_measured_again_is_said_to_lose() -> None:
    """Naive: "best is on-device", which takes half as long again as the loop as written."""
    assert "on-device, chosen as best, loses to as written" in both_best((), gpu_ms=30.0)


def test_a_step_that_a_check_refuted_is_not_the_best() -> None:
    """Naive: "the best, on-device, is not measured again yet", which was measured and is wrong."""
    lines = climbed({"as-written": 80.0, "workers": 70.0, "on-device": 40.0})
    bad = a_case(device="cuda:0", tuning="on-device")
    best = one(asking(lines), a_check(bad, "output_mismatch"), *lines).best
    assert [b.tuning_name for b in best] == ["workers", "workers"]
