"""Comparing two results, and the values of an axis, against planted truth."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from breakeven.analysis.comparable import Side, gate
from breakeven.analysis.compare import compare, confirmed
from breakeven.analysis.compare_axis import compare_by
from breakeven.analysis.compare_findings import AxisMean, Comparison
from breakeven.errors import UserError
from breakeven.records.case import Case, Tuning
from breakeven.records.file import Results
from breakeven.records.lines import Attempt, Fingerprint
from breakeven.report.compare import written
from breakeven.stats import Verdict
from breakeven.units import format_ratio_interval

from .conftest import a_case, a_machine, a_study, file_of, sampled
from .inference_lines import checked, infer_case, served

SEEN = {"conv_precision": "ieee", "matmul_precision": "ieee", "threads": 2, "core_loop_ns": 50.0}


def result(
    times: Mapping[Case, float],
    *,
    n: int = 12,
    sd: float = 0.02,
    seed: int = 0,
    machine: Fingerprint | None = None,
    study: Mapping[str, Any] | None = None,
    path: str = "base/results.jsonl",
    **changes: Any,
) -> Results:
    """A file of `n` processes a case, the step of each in milliseconds as planted."""
    rng = random.Random(seed)
    lines = [
        sampled(c, i, ms * math.exp(rng.gauss(0, sd)), **{"observed": SEEN, **changes})
        for c, ms in times.items()
        for i in range(n)
    ]
    fixed = {"replicates": n, "max_replicates": n}
    return file_of(a_study(list(times), study or fixed), machine or a_machine(), *lines, path=path)


def models(*names: str) -> list[Case]:
    return [a_case(name) for name in names]


CASES = models("simple-cnn", "resnet18", "resnet50")
PLAIN = dict.fromkeys(CASES, 20.0)


def compared(new: Mapping[Case, float], **options: Any) -> Comparison:
    wanted = {key: options.pop(key) for key in ("fail_if_slower", "strict") if key in options}
    base = result(PLAIN, sd=options.get("sd", 0.02))
    return compare(base, result(new, seed=1, path="new/results.jsonl", **options), **wanted)


def test_what_was_planted_is_found_and_named() -> None:
    found = compared({CASES[0]: 20.0, CASES[1]: 24.0, CASES[2]: 15.0}, fail_if_slower=0.05)
    by = {row.case_id: row for row in found.cases}
    same, slower, faster = (by[c.case_id] for c in CASES)
    assert (same.verdict, slower.verdict, faster.verdict) == (Verdict.SAME, Verdict.SLOWER, Verdict.FASTER)
    assert slower.ratio is not None and slower.ratio.contains(20 / 24)
    assert slower.slower_by == pytest.approx(0.2, abs=0.03) and slower.processes == (12, 12)
    assert found.gate is not None and found.gate.failed == ("resnet18",) and not found.passed
    assert found.suspects == (CASES[1].case_id,)
    assert any(s.startswith("FAILED: slower by more than 5 %: resnet18") for s in found.sentences)
    truth = (20 / 20 * 20 / 24 * 20 / 15) ** (1 / 3)
    assert found.geometric is not None and found.geometric.contains(truth) and found.geometric_n == 3


def test_nothing_planted_passes_and_says_what_it_could_have_seen() -> None:
    found = compared(PLAIN, fail_if_slower=0.05)
    assert found.passed and found.gate is not None and found.gate.failed == ()
    assert found.gate.sees is not None and 0.02 < found.gate.sees < 0.06
    assert any(s.startswith("PASSED") for s in found.sentences)
    few = compared(PLAIN, n=3, fail_if_slower=0.05).gate
    assert few is not None and few.sees is not None and few.sees > 0.1 and (few.needs or 0) > 3


def test_uncertain_passes_unless_strict() -> None:
    new = {**PLAIN, CASES[0]: 21.6}
    loose = compared(new, n=3, sd=0.08, fail_if_slower=0.05)
    assert loose.cases[0].verdict is Verdict.UNCERTAIN and loose.passed
    assert (loose.cases[0].processes_needed or 0) > 3
    strict = compared(new, n=3, sd=0.08, fail_if_slower=0.05, strict=True)
    assert not strict.passed and any(s.startswith("FAILED (--strict)") for s in strict.sentences)


def test_a_slowdown_below_the_threshold_is_slower_and_passes() -> None:
    found = compared({**PLAIN, CASES[1]: 20.9}, n=12, sd=0.004, fail_if_slower=0.05)
    assert found.cases[1].verdict is Verdict.SLOWER and found.passed
    tight = compared({**PLAIN, CASES[1]: 20.4}, n=12, sd=0.002, fail_if_slower=0.01)
    assert tight.cases[1].verdict is Verdict.SLOWER and not tight.passed  # 2 % is not SAME where 1 % fails


def test_one_process_gives_no_verdict() -> None:
    found = compare(result(PLAIN, n=1), result({**PLAIN, CASES[0]: 40.0}, n=1, seed=1, path="new"))
    assert all(row.verdict is None and row.ratio is None for row in found.cases)
    assert found.cases[0].point == pytest.approx(0.5, rel=0.2) and found.geometric is None
    with pytest.raises(UserError, match="nothing to decide"):
        compare(result(PLAIN, n=1), result(PLAIN, n=1, seed=1), fail_if_slower=0.05)
    pair = result(PLAIN, n=2), result({**PLAIN, CASES[0]: 40.0}, n=2, path="new")
    two = compare(*pair)
    assert two.cases[0].verdict is None and "3 are the fewest" in two.cases[0].reasons["verdict"]
    with pytest.raises(UserError, match="3 are the fewest"):
        compare(*pair, fail_if_slower=0.05)


def test_a_machine_that_others_used_is_not_judged() -> None:
    shared = result({c: 40.0 for c in CASES}, seed=1, flags=("contended",))
    found = compare(result(PLAIN), shared)
    assert all(row.verdict is None and row.ratio is not None for row in found.cases)
    with pytest.raises(UserError, match="something else used the machine"):
        compare(result(PLAIN), shared, fail_if_slower=0.05)


def test_what_must_match_blocks_and_is_named_and_what_must_be_shown_is_shown() -> None:
    seen = SEEN | {"conv_precision": "tf32"}
    found = compared({CASES[0]: 10.0, CASES[1]: 10.0}, observed=seen)
    assert all(row.ratio is None for row in found.cases)
    assert {d.field for row in found.cases for d in row.blocked} == {"observed.conv_precision"}
    why = {row.reasons["ratio"] for row in found.cases}
    assert all("the precision of convolutions, as read back (" in text for text in why)
    assert not any("--across-machines" in text for text in why)  # it allows other machines, not other work
    assert any("convolutions, as read back (ieee -> tf32)" in s for s in found.sentences)
    assert found.only_base == ("resnet50",)
    newer = dataclasses.replace(
        a_machine(2, nvidia={"driver": "580.1"}), fingerprint_id="f1", platform_id="p1"
    )
    drivers = compared(PLAIN, machine=newer, fingerprint_id="f1")
    assert all(row.ratio is not None for row in drivers.cases)  # a driver may be what is compared
    assert {"nvidia.driver", "machine"} <= {d.field for d in drivers.shown}


def test_another_machine_blocks_unless_asked_for_and_is_never_a_regression() -> None:
    other = dataclasses.replace(a_machine(16), fingerprint_id="f1", platform_id="p1")
    new = {c: 40.0 for c in CASES}
    found = compared(new, machine=other, fingerprint_id="f1")
    assert all("cpu.threads" in {d.field for d in row.blocked} for row in found.cases)
    base, there = result(PLAIN), result(new, machine=other, fingerprint_id="f1", path="theirs")
    across = compare(base, there, across=True)
    assert [row.verdict for row in across.cases] == [Verdict.SLOWER] * 3 and across.passed
    assert any("nothing here is a regression" in s for s in across.sentences)
    assert not any("FAILED" in s for s in across.sentences)
    with pytest.raises(UserError, match="no regression"):
        compare(base, there, across=True, fail_if_slower=0.05)


def test_a_kernel_that_keeps_some_memory_is_no_other_machine() -> None:
    def machine(name: str, memory: int) -> Fingerprint:
        return dataclasses.replace(a_machine(memory_gib=memory), fingerprint_id=name, platform_id=name)

    base = result(PLAIN, machine=machine("f0", 126))
    for memory, differs in ((125, False), (64, True)):
        new = result(PLAIN, machine=machine("f1", memory), fingerprint_id="f1", seed=1)
        blocked = {d.field for row in compare(base, new).cases for d in row.blocked}
        assert blocked == ({"memory_gib"} if differs else set())


def test_another_board_of_one_model_is_another_machine() -> None:
    gpus = [{"name": "NVIDIA H200", "vbios": "1"}]
    case = a_case(device="cuda:0")
    boards = [
        dataclasses.replace(a_machine(gpus=gpus), fingerprint_id=f"f{i}", platform_id="p", unit={"gpus": [i]})
        for i in range(2)
    ]
    sides = [result({case: 9.0}, machine=m, fingerprint_id=m.fingerprint_id, seed=3) for m in boards]
    (row,) = compare(*sides).cases
    assert [d.field for d in row.blocked] == ["unit.gpus"]
    assert row.reasons["ratio"] == (
        "not comparable: another GPU board of the same kind (its id differs); "
        "--across-machines compares the two all the same, without a gate"
    )
    (allowed,) = compare(*sides, across=True).cases
    assert allowed.ratio is not None
    cpu = [result(PLAIN, machine=m, fingerprint_id=m.fingerprint_id) for m in boards]
    assert all(row.ratio for row in compare(*cpu).cases)  # of no matter to a CPU's case


def test_a_case_that_broke_is_named_and_strict_fails_what_is_gone() -> None:
    broken = [
        sampled(CASES[0], i, 20.0, outcome="error", reason="no kernel", observed=SEEN) for i in range(3)
    ]
    new = result({CASES[1]: 20.0}, seed=1)
    new = dataclasses.replace(new, lines=(*new.lines, *broken))
    study = a_study(CASES[:2], {"replicates": 12, "max_replicates": 12})
    new = dataclasses.replace(new, lines=(study, *new.lines[1:]))
    found = compare(result(PLAIN), new, fail_if_slower=0.05)
    assert found.broken == (("simple-cnn", "error: no kernel"),) and found.passed
    assert found.only_base == ("resnet50",)
    assert not compare(result(PLAIN), new, fail_if_slower=0.05, strict=True).passed


def test_the_confirmation_alone_decides() -> None:
    unlucky = {**PLAIN, CASES[1]: 24.0}
    first = compared(unlucky, fail_if_slower=0.05)
    cleared = confirmed(first, result(PLAIN), result({CASES[1]: 20.0}, seed=9, path="new/confirm-1"))
    assert not first.passed and cleared.passed
    assert any(s.startswith("PASSED: of 1 suspect none was confirmed") for s in cleared.sentences)
    real = confirmed(first, result(PLAIN), result({CASES[1]: 24.0}, seed=9, path="new/confirm-1"))
    assert not real.passed and any(s.startswith("FAILED: confirmed slower") for s in real.sentences)


def test_a_confirmation_clears_suspects_and_not_what_is_open() -> None:
    new = result({CASES[0]: 20.0, CASES[1]: 24.0}, seed=1)
    first = compare(result(PLAIN), new, fail_if_slower=0.05, strict=True)
    assert first.only_base == ("resnet50",)
    cleared = confirmed(first, result(PLAIN), result({CASES[1]: 20.0}, seed=9))
    assert not cleared.passed and any(s.startswith("FAILED (--strict)") for s in cleared.sentences)


def test_files_without_a_common_case_are_the_users_error() -> None:
    with pytest.raises(UserError, match="no case in common"):
        compare(result(PLAIN), result({a_case("resnet101"): 9.0}))


def inference(seed: int, step_ms: float, call_ms: float, observed: Mapping[str, Any], n: int = 6) -> Results:
    rng = random.Random(seed)
    case = infer_case(tuning="openvino")
    lines = []
    for i in range(n):
        luck = math.exp(rng.gauss(0, 0.01))
        calls = [call_ms * luck] * 100
        lines.append(served(case, i, step_ms * luck, calls, observed=observed, hashes={"weights": "w0"}))
    study = a_study([case], {"replicates": n, "max_replicates": n})
    return file_of(study, a_machine(), *lines)


def test_inference_compares_calls_too_and_asks_its_runtime_what_ran() -> None:
    """A session knows no `conv_precision` and hashes no order; the bits of its weights count."""
    seen = {"inference_precision": "fp32"}
    found = compare(inference(0, 10.0, 12.0, seen), inference(1, 10.0, 18.0, seen), fail_if_slower=0.05)
    rows = {row.of: row for row in found.cases}
    assert rows["step"].verdict is Verdict.SAME and rows["call"].verdict is Verdict.SLOWER
    assert found.gate is not None and found.gate.failed == ("resnet18, a single call",)
    with pytest.raises(UserError, match="bf16 was read back of a case in fp32"):
        compare(inference(0, 10.0, 12.0, seen), inference(1, 5.0, 6.0, {"inference_precision": "bf16"}))
    unread = compare(inference(0, 10.0, 12.0, {}), inference(1, 10.0, 12.0, {}))
    assert [d.field for d in unread.cases[0].blocked] == ["observed.inference_precision"]


def test_inference_needs_the_weights_hash_and_only_common_images() -> None:
    a = served(infer_case(), 0, 10.0, observed=SEEN)
    bare = dataclasses.replace(a, hashes={"weights": "w0"})
    assert gate(Side(attempt=a), Side(attempt=bare)).allowed
    other = dataclasses.replace(a, hashes={"weights": "w1", "order": "o0"})
    assert [d.field for d in gate(Side(attempt=a), Side(attempt=other)).blocked] == ["hashes.weights"]
    none = dataclasses.replace(a, hashes={})
    assert [d.field for d in gate(Side(attempt=none), Side(attempt=none)).blocked] == ["hashes.weights"]
    moved = dataclasses.replace(a, hashes={"weights": "w0", "order": "o1"})
    assert [d.field for d in gate(Side(attempt=a), Side(attempt=moved)).blocked] == ["hashes.order"]


def tuned(**changes: Any) -> Case:
    return a_case(tuning=dataclasses.replace(Tuning(), **changes))


def axis(cases: Sequence[tuple[Case, float, str]], n: int = 5, sd: float = 0.01) -> Results:
    rng = random.Random(2)
    lines = [
        sampled(c, i, ms * math.exp(rng.gauss(0, sd)), name=name, observed=SEEN)
        for c, ms, name in cases
        for i in range(n)
    ]
    study = {"replicates": n, "max_replicates": n}
    return file_of(a_study([c for c, *_ in cases], study), a_machine(), *lines)


def test_by_an_axis_sets_equal_work_against_the_first_value() -> None:
    cases = [
        (tuned(), 20.0, "as-written"),
        (tuned(precision="bf16"), 10.0, "as-written"),
        (tuned(layout="channels-last"), 16.0, "channels-last"),
        (tuned(layout="channels-last", precision="bf16"), 4.0, "channels-last"),
    ]
    found = compare_by(axis(cases), "precision")
    points = {(r.base_id, r.candidate_id): r for r in found.ratios}
    ids = [c.case_id for c, *_ in cases]
    assert set(points) == {(ids[0], ids[1]), (ids[2], ids[3])}
    for pair, truth in (((ids[0], ids[1]), 2.0), ((ids[2], ids[3]), 4.0)):
        ratio = points[pair].ratio
        assert ratio is not None and ratio.estimate == pytest.approx(truth, rel=0.03)
        assert points[pair].verdict is Verdict.FASTER
    (mean,) = found.geometric
    assert (mean.value, mean.bases, mean.cases, mean.decided) == ("bf16", (("default", 2),), 2, 2)
    assert mean.ratio is not None and mean.ratio.contains(8**0.5) and not mean.reasons
    assert [s for s in found.sentences if "geometric mean" in s] == [
        f"bf16 over default: {format_ratio_interval(mean.ratio)} as fast, geometric mean of 2 cases, "
        "2 of them decided."
    ]
    assert any(s.startswith("Faster: ") and s.count(" over default") == 2 for s in found.sentences)
    with pytest.raises(UserError, match="one device"):
        compare_by(axis(cases), "device")


def mean_of(*cases: tuple[Case, float, str], n: int = 5, sd: float = 0.01) -> tuple[AxisMean, str]:
    found = compare_by(axis(cases, n, sd), "precision")
    said = [s for s in found.sentences if s.startswith("bf16")]
    return next(m for m in found.geometric if m.value == "bf16"), said[0]


def test_a_mean_over_unlike_bases_or_of_too_few_processes_is_no_number() -> None:
    plain = [(tuned(), 20.0, "a"), (tuned(precision="bf16"), 10.0, "a")]
    fp32 = [(tuned(layout="channels-last", precision="fp32"), 16.0, "b"),
            (tuned(layout="channels-last", precision="bf16"), 4.0, "b")]  # fmt: skip
    mean, said = mean_of(*plain, *fp32)
    assert mean.ratio is None and mean.bases == (("default", 1), ("fp32", 1))
    assert said == (
        "bf16: its bases differ (default in 1 case, fp32 in 1 case), so there is no mean; each ratio stands "
        "in the table."
    )
    alike = [*plain, (tuned(layout="channels-last"), 16.0, "b"), fp32[1]]
    mean, said = mean_of(*alike, n=1)
    assert mean.ratio is None and "no mean and no verdict (1 process in common)" in said and "x" not in said
    mean, said = mean_of(*alike, n=2)
    assert mean.ratio is not None and mean.decided == 0
    assert said.endswith("no verdict on the mean: 2 processes in common: 3 are the fewest for a verdict.")
    assert compare_by(axis(plain), "precision").geometric == ()  # one case: its ratio says it


def test_the_interval_of_a_mean_covers_the_planted_truth() -> None:
    """95 % nominal, 100 trials of four processes whose cases share the level of each: 89 or more (99.5 %)."""
    cases = [(tuned(), 20.0), (tuned(precision="bf16"), 10.0), (tuned(layout="channels-last"), 16.0),
             (tuned(layout="channels-last", precision="bf16"), 4.0)]  # fmt: skip
    study = a_study([c for c, _ in cases], {"replicates": 4, "max_replicates": 4})
    covered = 0
    for trial in range(100):
        rng = random.Random(trial)
        levels = [rng.gauss(0, 0.1) for _ in range(4)]
        lines = [
            sampled(c, i, ms * math.exp(level + rng.gauss(0, 0.02)), observed=SEEN)
            for c, ms in cases
            for i, level in enumerate(levels)
        ]
        (mean,) = compare_by(file_of(study, a_machine(), *lines), "precision").geometric
        assert mean.ratio is not None and mean.ratio.relative_half_width < 0.12  # the levels cancel
        covered += mean.ratio.contains(8**0.5)
    assert covered >= 89


def test_answers_and_reasons_that_are_alike_are_said_once() -> None:
    cases = [infer_case(m, precision=p) for m in ("resnet18", "resnet50") for p in ("fp32", "int8")]
    lines = [served(c, i, ms) for c, ms in zip(cases, (20.0, 5.0) * 2, strict=True) for i in range(2)]

    def by(*shares: float) -> tuple[str, ...]:
        told = [
            checked(c, {"agreement": {"asked": 0.8, "found": share, "ok": True, "note": ""}})
            for c, share in zip(cases, shares, strict=True)
        ]
        return compare_by(file_of(a_study(cases), a_machine(), *told, *lines), "precision").sentences

    said = by(1.0, 0.95, 1.0, 0.98)
    assert [s for s in said if s.startswith("Answers")] == [
        "Answers of int8, 2 cases: same top-1 95.0 to 98.0 %, of their bases 100.0 % (random weights)."
    ]
    assert [s for s in said if s.startswith("No verdict on resnet")] == [
        "No verdict on resnet18 int8, resnet50 int8: 2 processes a side: 3 are the fewest for a verdict."
    ]
    assert "Answers of int8, 2 cases: same top-1 100.0 % (random weights)." in by(1.0, 1.0, 1.0, 1.0)


def test_by_device_takes_the_baseline_and_by_runtime_equal_precision() -> None:
    pair = [(a_case(device="cuda:0"), 5.0, "as-written"), (a_case(), 20.0, "as-written")]
    (ratio,) = compare_by(axis(pair), "device").ratios
    assert (ratio.base_label, ratio.candidate_label) == ("cpu", "cuda:0")
    assert ratio.verdict is Verdict.FASTER
    cases = [infer_case(tuning=name, precision=p) for name, p in
             (("eager", "fp32"), ("openvino", "fp32"), ("openvino", "int8"))]  # fmt: skip
    lines = [
        served(c, i, ms + i / 100, name=c.tuning.runtime, hashes={"weights": "w0"})
        for c, ms in zip(cases, (20.0, 10.0, 5.0), strict=True)
        for i in range(4)
    ]
    study = a_study(cases, {"replicates": 4, "max_replicates": 4})
    (only,) = compare_by(file_of(study, a_machine(), *lines), "runtime").ratios
    assert (only.base_id, only.candidate_id) == (cases[0].case_id, cases[1].case_id)


def test_what_failed_its_check_is_not_ranked() -> None:
    """R24: a fast wrong INT8 is no gain, and no regression either."""
    cases = [infer_case(), infer_case(precision="int8")]
    lines = [served(c, i, ms + i / 100) for c, ms in zip(cases, (20.0, 5.0), strict=True) for i in range(4)]
    wrong = checked(cases[1], {"agreement": {"asked": 0.9, "found": 0.1, "ok": False, "note": "untrue"}})
    study = a_study(cases, {"replicates": 4, "max_replicates": 4})
    results = file_of(study, a_machine(), wrong, *lines)
    (ratio,) = compare_by(results, "precision").ratios
    assert ratio.ratio is None and "untrue" in ratio.reasons["ratio"]
    seen = [dataclasses.replace(a, observed=SEEN) for a in lines]
    both = file_of(study, a_machine(), wrong, *seen)
    later = [dataclasses.replace(a, started_utc="2025-01-02T00:00:00+00:00") for a in seen]
    again = file_of(study, a_machine(), wrong, *later)
    rows = {row.case_id: row for row in compare(both, again).cases if row.of == "step"}
    assert rows[cases[0].case_id].ratio is not None
    assert "untrue" in rows[cases[1].case_id].reasons["ratio"]


def test_cases_of_earlier_studies_are_counted_and_compared_on_request() -> None:
    old, new = tuned_pair()
    lines = [sampled(c, i, ms) for c, ms in ((old, 20.0), (new, 10.0)) for i in range(4)]
    results = file_of(a_study([old]), a_study([new]), a_machine(), *lines)
    with pytest.raises(UserError, match="1 case of earlier studies hidden"):
        compare_by(results, "precision")
    (row,) = compare_by(results, "precision", show_all=True).ratios
    assert row.point == pytest.approx(0.5)  # the latest study's case is the base
    later = [dataclasses.replace(line, started_utc="2025-01-02T00:00:00+00:00") for line in lines]
    other = file_of(a_study([old]), a_study([new]), a_machine(), *later)
    assert compare(results, other).hidden == 2 and len(compare(results, other).cases) == 1
    assert len(compare(results, other, show_all=True).cases) == 2


def test_simulated_devices_are_named_without_what_was_planted() -> None:
    one, two = (a_case(device=f"sim:gpu:bf16={n}") for n in (2, 3))
    lines = [sampled(c, i, ms) for c, ms in ((one, 20.0), (two, 10.0)) for i in range(4)]
    found = compare_by(file_of(a_study([one, two]), a_machine(), *lines), "device")
    assert dict(found.names) == {one.case_id: "resnet18 sim:gpu", two.case_id: "resnet18 sim:gpu#2"}


def tuned_pair() -> tuple[Case, Case]:
    return a_case(), a_case(tuning=dataclasses.replace(Tuning(), precision="bf16"))


def test_every_process_of_a_side_must_match_not_the_last_alone() -> None:
    """Eleven processes in TF32 behind a last one in IEEE are no case of IEEE."""
    base = result(PLAIN)
    lines = [
        dataclasses.replace(line, observed={**SEEN, "conv_precision": "tf32"})
        if isinstance(line, Attempt) and line.case_id == CASES[1].case_id and line.replicate < 11
        else line
        for line in result(PLAIN, seed=1).lines
    ]
    found = compare(base, dataclasses.replace(base, path="new", lines=tuple(lines)), fail_if_slower=0.05)
    rows = {row.case_id: row for row in found.cases}
    assert rows[CASES[0].case_id].verdict is Verdict.SAME
    wrong = rows[CASES[1].case_id]
    assert wrong.ratio is None and wrong.reasons["ratio"].startswith("new: its processes differ")
    assert "the precision of convolutions, as read back (tf32 -> ieee)" in wrong.reasons["ratio"]


def test_answers_that_got_worse_are_named_beside_the_speed() -> None:
    """A faster INT8 with three points less agreement, still above its limit."""
    cases = [infer_case(), infer_case(precision="int8")]
    lines = [
        served(c, i, ms + i / 100, observed=SEEN, hashes={"weights": "w0"})
        for c, ms in zip(cases, (20.0, 5.0), strict=True)
        for i in range(4)
    ]
    study = a_study(cases, {"replicates": 4, "max_replicates": 4})

    def at(share: float, path: str) -> Results:
        told = {"agreement": {"asked": 0.8, "found": share, "ok": True, "note": ""}}
        return file_of(study, a_machine(), checked(cases[1], told), checked(cases[0]), *lines, path=path)

    later = [dataclasses.replace(line, started_utc="2025-01-02") for line in lines]
    found = compare(
        at(0.99, "base"), dataclasses.replace(at(0.96, "new"), lines=(*at(0.96, "").lines[:4], *later))
    )
    (told,) = [s for s in found.sentences if s.startswith("Answers got worse")]
    assert "int8" in told and "same top-1 99.0 % to 96.0 % (random weights)" in told
    by = compare_by(at(0.96, "base"), "precision")
    assert any("int8" in s and "same top-1 99.8 % to 96.0 %" in s for s in by.sentences)
    assert "99.8 % to 96.0 %" in str(written(by, Path("a.md"))) and "99.0 % to 96.0 %" in written(
        found, Path("a.txt")
    )


def test_the_same_measurements_twice_are_no_comparison() -> None:
    """A second `run` into a full folder measures nothing: its old lines must not pass the gate."""
    base = result(PLAIN)
    copy = dataclasses.replace(base, path="new")
    for options in ({"fail_if_slower": 0.05}, {}):
        with pytest.raises(UserError, match="both sides hold the same measurements: base"):
            compare(base, copy, **options)
    fresh = [line for line in result(PLAIN, seed=1).lines if getattr(line, "case_id", "") == CASES[1].case_id]
    old = [line for line in base.lines if getattr(line, "case_id", "") != CASES[1].case_id]
    part = compare(base, dataclasses.replace(base, path="new", lines=(*old, *fresh)), fail_if_slower=0.05)
    verdicts = {row.case_id: row.verdict for row in part.cases}
    assert [verdicts[c.case_id] for c in CASES] == [None, Verdict.SAME, None]
    assert part.gate is not None and len(part.gate.open) == 2


def test_when_each_side_was_measured_is_shown() -> None:
    new = result(PLAIN, seed=1, path="new")
    late = "2025-01-09T00:00:00+00:00"
    lines = [
        dataclasses.replace(line, started_utc=late)
        if isinstance(line, Attempt) and line.replicate == 11 and line.case_id == CASES[0].case_id
        else line
        for line in new.lines
    ]
    found = compare(result(PLAIN), dataclasses.replace(new, lines=tuple(lines)))
    assert found.measured[1] == "2025-01-01T00:00:00 to 2025-01-09T00:00:00 UTC"
    assert any(
        s.startswith("Processes of one case began on different days: simple-cnn;") for s in found.sentences
    )
    assert found.measured[1] in written(found, Path("a.md"))


def test_a_comparison_is_a_page_and_a_sheet_too() -> None:
    """Every case in a sheet; the page has the chart, its table, and a hostile name as text."""
    new = result(dict(zip(CASES, (12.0, 20.0, 40.0), strict=True)), seed=1, path="<b>new")
    found = compare(result(PLAIN), new, fail_if_slower=0.05)
    rows = list(csv.DictReader(io.StringIO(written(found, Path("a.csv")))))
    assert [row["model"] for row in rows] == [row.case.work.model for row in found.cases]
    for row, case in zip(rows, found.cases, strict=True):
        assert case.ratio is not None and float(row["ratio"]) == case.ratio.estimate
        assert row["fails"] == str(case.fails).lower() and row["confirmed"] == "false"
    pytest.importorskip("altair")
    page = written(found, Path("a.html"))
    assert "<b>new" not in page and "&lt;b&gt;new" in page
    assert 'data-chart="cases"' in page and 'id="cases-table"' in page
    with pytest.raises(UserError, match=r"written as \.html, \.md, \.txt, \.csv, \.json, not '.svg'"):
        written(found, Path("a.svg"))
