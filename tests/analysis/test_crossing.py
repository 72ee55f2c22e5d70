"""Break-even: planted crossings come back with their interval, and what cannot be told is not told."""

import dataclasses
import math
import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from breakeven.analysis.cases import measured_cases
from breakeven.analysis.crossing import break_even_of
from breakeven.analysis.curve_phrases import break_even
from breakeven.analysis.curves import BreakEvenFinding
from breakeven.analysis.pairs import pairs_of
from breakeven.analysis.ratios import ratios_of
from breakeven.records.case import parse_device
from breakeven.records.lines import Attempt
from breakeven.stats import Verdict

from .conftest import a_case, a_study, again, an_attempt, file_of, sampled, understood

BATCHES = (1, 2, 4, 8, 16, 32, 64)


def curve(
    ratio: Callable[[int], float],
    *,
    n: int = 3,
    sd: float = 0.01,
    seed: int = 0,
    batches: Sequence[int] = BATCHES,
    model: str = "simple-cnn",
) -> list[Attempt]:
    """Every batch on both devices; the CPU takes 10 ms a sample, the GPU what the ratio says."""
    rng = random.Random(seed)
    lines = []
    for batch in batches:
        for device, ms in (("cpu", 10.0 * batch), ("cuda:0", 10.0 * batch / ratio(batch))):
            case = a_case(model, device, batch=batch)
            lines += [sampled(case, i, ms * math.exp(rng.gauss(0, sd))) for i in range(n)]
    return lines


def found(lines: Sequence[Attempt]) -> BreakEvenFinding:
    measured = measured_cases(file_of(lines))
    pairs = pairs_of(measured, parse_device("cpu"))
    (finding,) = break_even_of(pairs, ratios_of(pairs))
    return finding


def test_the_planted_batch_comes_back() -> None:
    """A GPU whose step takes as long as the launches, whatever the batch: the ratio grows with the batch."""
    finding = found(curve(lambda b: b / 5.0))
    assert finding.answer == "between" and finding.wins_above and finding.axis == "batch"
    assert finding.at is not None and finding.low is not None and finding.high is not None
    assert finding.low < 5.0 < finding.high and finding.at == pytest.approx(5.0, rel=0.03)
    assert (finding.after, finding.before) == (4.0, 8.0)
    assert finding.processes == 3 and len(finding.evidence) == 2 * 3 * len(BATCHES)
    assert "cuda:0 wins over cpu from batch 5 [" in break_even(finding) or "batch 6 [" in break_even(finding)


def test_the_interval_covers_the_planted_batch() -> None:
    """95 % nominal, 200 trials at a batch that was measured: 99.9 % of such counts lie in 179..199."""
    hits = 0
    for trial in range(200):
        finding = found(curve(lambda b: b / 4.0, sd=0.04, seed=trial, batches=(1, 2, 4, 8, 16)))
        hits += (finding.low or 0.0) <= 4.0 <= (finding.high or math.inf)
    assert 179 <= hits <= 199


def test_pooling_the_blocks_would_not() -> None:
    """One process a side that speaks for all: its own crossing, without an interval and without a verdict."""
    finding = found(curve(lambda b: b / 4.0, n=1, sd=0.2, seed=3))
    assert finding.answer == "cannot be told" and finding.low is finding.high is None
    assert finding.at is not None and "about" in break_even(dataclasses.replace(finding, answer="between"))


def test_it_wins_at_every_batch_or_at_none() -> None:
    always, never = found(curve(lambda b: 2.0 + b)), found(curve(lambda b: 0.5))
    assert (always.answer, never.answer) == ("always", "never")
    assert always.at is never.at is None
    assert (
        break_even(always)
        == "cuda:0 wins over cpu at every batch measured, 1 to 64 (simple-cnn, as written)."
    )
    assert break_even(never) == "cuda:0 wins over cpu at no batch measured, 1 to 64 (simple-cnn, as written)."


def test_a_win_that_ends_is_said_the_other_way_round() -> None:
    finding = found(curve(lambda b: 20.0 / b))
    assert finding.answer == "between" and not finding.wins_above
    assert finding.at == pytest.approx(20.0, rel=0.05)
    assert " up to batch " in break_even(finding)


def test_doubt_far_from_the_crossing_is_said_beside_it() -> None:
    finding = found(curve(lambda b: 1.0 if b == 64 else b / 5.0, sd=0.03, seed=1))
    assert finding.answer == "between" and finding.before == 8.0
    assert finding.reason == "neither device surely wins at 64"
    assert found(curve(lambda b: b / 5.0)).reason is None


def test_several_crossings_are_listed_and_none_is_chosen() -> None:
    finding = found(curve(lambda b: {1: 0.5, 2: 2.0, 4: 2.0, 8: 0.5, 16: 0.5, 32: 3.0, 64: 3.0}[b]))
    assert finding.answer == "several" and finding.at is None
    assert finding.changes == ((1.0, 2.0), (4.0, 8.0), (16.0, 32.0))
    assert "turns more than once" in break_even(finding)


def test_an_open_end_is_above_or_below_all_that_was_measured() -> None:
    above = found(curve(lambda b: 1.0 if b == 64 else 0.6, sd=0.05, seed=1))
    assert above.answer == "cannot be told" and above.after == 32.0 and above.before is None
    assert above.high is None and above.wins_above
    assert "above 32" in break_even(above)
    below = found(curve(lambda b: 1.0 if b == 1 else 2.0, sd=0.05, seed=1))
    assert below.answer == "cannot be told" and below.before == 2.0 and below.low is None
    assert "below 2" in break_even(below)


def test_a_ratio_that_is_everywhere_near_one_cannot_be_told() -> None:
    finding = found(curve(lambda b: 1.0, sd=0.05, seed=5))
    assert finding.answer == "cannot be told" and finding.low is finding.high is None
    assert finding.reason is not None and "neither device surely wins" in finding.reason


def test_noise_near_the_crossing_makes_no_second_one() -> None:
    """Flat near 1: single processes cross back and forth, the finding crosses once."""
    flat: Mapping[int, float] = {1: 0.3, 2: 0.98, 4: 1.0, 8: 1.0, 16: 1.01, 32: 1.02, 64: 3.0}
    for seed in range(30):
        finding = found(curve(lambda b: flat[b], sd=0.03, seed=seed))
        assert finding.answer == "between" and finding.wins_above
        assert finding.low is not None and finding.high is not None
        assert 1.0 <= finding.low <= finding.high <= 64.0


def test_out_of_memory_is_a_missing_point_with_its_reason() -> None:
    gpu = a_case("simple-cnn", "cuda:0", batch=128)
    lines = [
        *curve(lambda b: b / 5.0),
        *(sampled(a_case("simple-cnn", "cpu", batch=128), i, 1280.0) for i in range(3)),
        an_attempt(gpu, outcome="oom", reason="out of memory", region=None),
    ]
    finding = found(lines)
    assert finding.answer == "between" and len(finding.points) == len(BATCHES)
    assert finding.missing == (("128", "cuda:0: oom: out of memory"),)


def test_a_shared_machine_gives_no_verdict() -> None:
    lines = [again(line, flags=("contended",)) for line in curve(lambda b: b / 5.0)]
    finding = found(lines)
    assert finding.answer == "cannot be told" and finding.at is not None
    assert finding.reason is not None and "something else used the machine" in finding.reason


def test_processes_of_another_machine_do_not_pair() -> None:
    other = [
        again(line, fingerprint_id="f1") if line.device.kind == "cuda" else line
        for line in curve(lambda b: b / 5)
    ]
    measured = measured_cases(file_of(other))
    pairs = pairs_of(measured, parse_device("cpu"))
    assert break_even_of(pairs, ratios_of(pairs)) == []


def test_a_curve_is_of_one_machine() -> None:
    """Naive: one machine loses at 1 and 2, another wins at 16 to 64, so the GPU "wins from batch 2 to 16"."""
    lines = curve(lambda b: b / 5.0, batches=(1, 2, 16, 32, 64))
    finding = found([again(a, fingerprint_id="f1") if a.work.batch < 8 else a for a in lines])
    assert finding.answer == "always" and [p.x for p in finding.points] == [16, 32, 64]
    assert dict(finding.missing) == {"1": "measured on another machine", "2": "measured on another machine"}


def test_a_neighbour_at_one_batch_moves_no_crossing() -> None:
    """Naive: a CPU that shares its machine at batch 16 alone puts the crossing at 9 instead of 32."""
    planted = {1: 0.4, 8: 0.7, 16: 5.0, 64: 1.4, 128: 2.0}
    lines = curve(planted.__getitem__, batches=tuple(planted))
    lines = [again(a, flags=("contended",)) if a.work.batch == 16 else a for a in lines]
    finding = found(lines)
    assert (finding.answer, finding.after, finding.before) == ("between", 8, 64)
    assert finding.at == pytest.approx(8 * 8 ** (math.log(0.7) / math.log(0.7 / 1.4)), rel=0.1)


def test_a_crossing_without_a_common_replicate_lies_between_its_sides() -> None:
    lines = curve(lambda b: b / 5.0, batches=(1, 64))
    lines = [again(a, replicate=a.replicate + 3) if a.work.batch == 64 else a for a in lines]
    assert "from batch between 1 and 64" in break_even(found(lines))


def test_a_size_takes_three_models_and_one_batch() -> None:
    steps = {"simple-cnn": (10.0, 20.0), "resnet18": (40.0, 30.0), "resnet50": (200.0, 50.0)}
    rng = random.Random(0)
    lines = [
        sampled(a_case(model, device), i, ms * math.exp(rng.gauss(0, 0.01)), parameters=None)
        for model, (cpu, gpu) in steps.items()
        for device, ms in (("cpu", cpu), ("cuda:0", gpu))
        for i in range(3)
    ]
    sizes = understood(lines).break_even
    assert [f.axis for f in sizes] == ["flops", "parameters"]
    for finding in sizes:
        assert finding.answer == "between" and finding.model is None and finding.batch == 128
        assert [p.name for p in finding.points] == ["simple-cnn", "resnet18", "resnet50"]
        assert (finding.after, finding.before) == (finding.points[0].x, finding.points[1].x)
    assert understood([line for line in lines if line.work.model != "resnet50"]).break_even == ()


def test_tunings_have_a_curve_each() -> None:
    lines = curve(lambda b: b / 5.0)
    for batch in BATCHES:
        for device, ms in (("cpu", 10.0 * batch), ("cuda:0", 20.0)):
            case = a_case("simple-cnn", device, "on-device", batch=batch)
            lines += [sampled(case, i, ms, name="on-device") for i in range(3)]
    both = understood(lines)
    answers = {f.tuning_name: f for f in both.break_even}
    assert set(answers) == {"as-written", "on-device"}
    assert answers["on-device"].at == answers["on-device"].low == pytest.approx(2.0)  # planted without noise
    assert [line for line in both.sentences if "from batch 2 [2, 2]" in line]


def test_a_study_that_may_add_processes_has_a_wider_interval() -> None:
    lines = curve(lambda b: b / 5.0, sd=0.02)
    cases = list({line.case_id: line.case for line in lines}.values())
    widths = []
    for most in (3, 10):
        study = a_study(cases, {"replicates": 3, "max_replicates": most})
        (finding,) = understood(study, lines).break_even
        assert finding.low is not None and finding.high is not None
        widths.append(math.log(finding.high / finding.low))
    assert widths[1] / widths[0] == pytest.approx(1.43, abs=0.02)


def test_a_side_is_sure_where_the_verdict_on_its_ratio_is() -> None:
    """A win that the correction over all models of the file leaves open is none on the curve either."""
    seen = set()
    for seed in range(20):
        lines = curve(lambda b: 1.15 if b == 1 else 2.0 + b, sd=0.04, seed=seed)
        for index, model in enumerate(("lenet", "resnet18", "resnet50", "vgg11")):
            lines += curve(lambda b: 1.0, sd=0.04, seed=100 * (seed + 1) + index, model=model)
        pairs = pairs_of(measured_cases(file_of(lines)), parse_device("cpu"))
        ratios = ratios_of(pairs)
        verdicts = {(r.model, r.batch): r.verdict for r in ratios}
        for finding in (f for f in break_even_of(pairs, ratios) if f.axis == "batch"):
            for p in finding.points:
                told = verdicts[finding.model or "", int(p.x)]
                assert p.side == {Verdict.FASTER: 1, Verdict.SLOWER: -1}.get(told, 0)
                seen.add((p.side, p.low is not None and p.low > 1))
    assert (0, True) in seen and (1, True) in seen, "the planted doubt never came up"
