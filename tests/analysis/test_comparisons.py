"""Ratios, parity and the law of size: planted truths come back, and what may not be compared is refused."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from breakeven.analysis import understand
from breakeven.analysis.findings import RatioFinding
from breakeven.records.case import Case, Tuning
from breakeven.records.lines import Attempt, Block
from breakeven.stats import Verdict
from breakeven.workloads.costs import parameter_count, training_flops
from breakeven.workloads.models import model

from .conftest import HASHES, a_case, a_study, again, an_attempt, file_of, full, sampled, spread, understood

CPU, GPU = a_case(), a_case(device="cuda:0")


def only(*lines: object) -> RatioFinding:
    (ratio,) = understood(*lines).ratios  # type: ignore[arg-type]
    return ratio


def refusal(*lines: object) -> str:
    ratio = only(*lines)
    assert ratio.ratio is ratio.verdict is ratio.point is None
    return ratio.reasons["ratio"]


def test_the_planted_ratio_comes_back() -> None:
    ratio = only(spread(GPU, 5.0), spread(CPU, 20.0))
    assert (ratio.base_label, ratio.candidate_label) == ("cpu", "cuda:0")
    assert ratio.ratio is not None and ratio.ratio.estimate == pytest.approx(4.0)
    assert ratio.verdict is Verdict.FASTER and ratio.of == "step" and not ratio.mixed
    assert ratio.point == ratio.ratio.estimate


def test_the_interval_covers_the_planted_ratio() -> None:
    """95 % nominal, 300 trials of 3 pairs: 99.9 % of such counts lie in 272..297."""
    hits = 0
    for trial in range(300):
        lines = [*spread(CPU, 20.0, sd=0.04, seed=trial), *spread(GPU, 5.0, sd=0.04, seed=trial)]
        ratio = only(lines).ratio
        assert ratio is not None
        hits += ratio.contains(4.0)
    assert 272 <= hits <= 297


def test_only_the_processes_of_a_ratio_decide_whether_it_was_disturbed() -> None:
    """Naive: 5 of the 10 processes were disturbed, no majority, though only those 5 have a partner."""

    def against(contended: Sequence[int]) -> RatioFinding:
        flags = {i: ("contended",) if i in contended else () for i in range(10)}
        gpu = [sampled(GPU, i, 24.0 if i in contended else 5.0, flags=flags[i]) for i in range(10)]
        return only(spread(CPU, 20.0, n=5), gpu)

    paired = against(range(5))
    assert paired.disturbed and paired.verdict is None
    assert "something else used the machine" in paired.reasons["verdict"]
    beyond = against(range(5, 10))
    assert not beyond.disturbed and beyond.verdict is Verdict.FASTER
    # ... and of whole runs those of the runs: sampled processes beside them tell nothing of them.
    runs = [full(CPU, i, train_s=2.0) for i in range(3)]
    runs += [full(GPU, i, train_s=1.0, flags=("contended",)) for i in range(3)]
    sampled_too = [*spread(CPU, 20.0, n=3), *spread(GPU, 5.0, n=3)]
    by_kind = {ratio.of: ratio for ratio in understood(runs, sampled_too).ratios}
    assert by_kind["full"].disturbed and by_kind["full"].verdict is None
    assert not by_kind["step"].disturbed and by_kind["step"].verdict is Verdict.FASTER


def moving(case: Case, ms: float, course: Sequence[float]) -> list[Attempt]:
    """Three processes, half a percent apart, whose steady steps take `ms` times each of `course`."""
    return [
        sampled(
            case,
            i,
            ms,
            blocks=tuple(Block(n_steps=1, samples=128, ns=round(1e6 * ms * x * level)) for x in course),
        )
        for i, level in enumerate((0.995, 1.0, 1.005))
    ]


FALLING = [1.45, 1.42, 1.415, 1.40, 1.38, 1.36, 1.34, 1.33]  # ... to 1


def test_times_that_still_fall_get_no_verdict_that_the_fall_may_have_made() -> None:
    """Naive: 1.27 times as long, sure; warmed up it takes 0.93 of the time."""
    calm = moving(CPU, 500.0, [1.0, 1.01, 0.99] * 3)
    found = only(calm, moving(GPU, 465.0, FALLING))
    assert found.point == pytest.approx(1 / 1.29, rel=0.02) and found.verdict is None and found.moving
    assert "still moved" in found.reasons["verdict"] and "not_steady" in found.flags
    # ... a rise hides as much, and so does a fall of the baseline; equality cannot be told either.
    assert only(calm, moving(GPU, 465.0, FALLING[::-1])).verdict is None
    assert only(moving(CPU, 500.0, FALLING), moving(GPU, 640.0, [1.0, 1.01, 0.99] * 3)).verdict is None
    # What is far beyond the fall stands, flagged.
    far = only(calm, moving(GPU, 5.0, FALLING))
    assert far.verdict is Verdict.FASTER and not far.moving and "not_steady" in far.flags
    quiet = only(calm, moving(GPU, 465.0, [1.0, 0.99, 1.01] * 3))
    assert quiet.verdict is Verdict.FASTER and "not_steady" not in quiet.flags


def test_blocks_too_few_for_a_trend_are_said() -> None:
    (one,) = understood(moving(CPU, 500.0, [1.2])).cases
    assert "few_blocks" in one.flags and "not_steady" not in one.flags
    (three,) = understood(moving(CPU, 500.0, [1.2, 1.15, 1.1])).cases
    assert "not_steady" in three.flags and "few_blocks" not in three.flags


def test_pairing_cancels_what_replicates_share() -> None:
    drift = (1.0, 1.3, 0.8)
    lines = [sampled(CPU, i, 20.0 * x) for i, x in enumerate(drift)]
    lines += [sampled(GPU, i, 5.0 * x) for i, x in enumerate(drift)]
    ratio = only(lines).ratio
    assert ratio is not None and ratio.relative_half_width < 1e-6


@pytest.mark.parametrize("name", ["weights", "order", "augment"])
def test_other_hashes_are_refused(name: str) -> None:
    other = spread(GPU, 5.0, hashes=HASHES | {name: "other"})
    assert name in refusal(spread(CPU, 20.0), other)


def test_a_hash_known_on_one_side_only_is_refused() -> None:
    assert "weights" in refusal(spread(CPU, 20.0), spread(GPU, 5.0, hashes={}))


def test_hashes_that_differ_between_processes_are_refused() -> None:
    odd = spread(CPU, 20.0)
    odd[1] = again(odd[1], hashes=HASHES | {"order": "o1"})
    assert "order" in refusal(odd, spread(GPU, 5.0))


def test_unequal_work_is_refused() -> None:
    why = refusal(spread(CPU, 20.0), spread(a_case(device="cuda:0", batch=64), 5.0))
    assert why == "unequal work: batch 128 against 64"


def test_other_regions_are_refused() -> None:
    assert "regions" in refusal(spread(CPU, 20.0), spread(GPU, 5.0, region="infer_call"))


def test_another_machine_is_refused() -> None:
    assert "machines" in refusal(spread(CPU, 20.0), spread(GPU, 5.0, fingerprint_id="f1"))


def test_a_failed_side_is_named() -> None:
    failed = an_attempt(GPU, outcome="oom", reason="no memory")
    assert refusal(spread(CPU, 20.0), failed) == "cuda:0: oom: no memory"


def test_one_process_has_no_interval_and_no_verdict() -> None:
    ratio = only(sampled(CPU, 0, 20.0), spread(GPU, 5.0))
    assert ratio.ratio is ratio.verdict is None and ratio.point == pytest.approx(4.0)
    assert "one process" in ratio.reasons["ratio"]


def test_replicates_that_do_not_meet_give_a_point() -> None:
    ratio = only([sampled(CPU, i, 20.0) for i in (0, 1)], [sampled(GPU, i, 5.0) for i in (2, 3)])
    assert ratio.ratio is None and ratio.point == pytest.approx(4.0)
    assert "in common" in ratio.reasons["ratio"]


def test_no_ratio_across_files() -> None:
    found = understand([file_of(spread(CPU, 20.0), path="a"), file_of(spread(GPU, 5.0), path="b")])
    assert found.ratios == () and found.sources == ("a", "b")
    assert [case.source for case in found.cases] == ["a", "b"]
    assert found.sentences[0] == "a:"


def test_the_named_baseline_wins() -> None:
    lines = [*spread(CPU, 20.0), *spread(GPU, 5.0)]
    ratio = only(a_study([CPU, GPU], {"baseline": "cuda"}), lines)
    assert ratio.base_label == "cuda:0" and ratio.point == pytest.approx(0.25)
    assert only(a_study([CPU, GPU], {"baseline": "auto"}), lines).base_label == "cpu"


def test_without_a_gpu_one_core_is_the_baseline() -> None:
    one = a_case(device="cpu:threads=1")
    assert only(spread(CPU, 10.0), spread(one, 20.0)).base_label == "cpu:threads=1"


def test_beside_a_gpu_all_cores_are_the_baseline() -> None:
    one = a_case(device="cpu:threads=1")
    found = understood(spread(one, 40.0), spread(CPU, 20.0), spread(GPU, 5.0))
    assert {r.base_label for r in found.ratios} == {"cpu"}


def test_a_preset_without_a_namesake_meets_the_one_before_it() -> None:
    base, candidate = a_case(tuning="no-sync"), a_case(device="cuda:0", tuning="cuda-graph")
    found = understood(
        spread(CPU, 30.0, name="as-written"),
        spread(base, 20.0, name="no-sync"),
        spread(candidate, 2.0, name="cuda-graph"),
    )
    (ratio,) = found.ratios
    assert (ratio.tuning_base, ratio.tuning_name, ratio.mixed) == ("no-sync", "cuda-graph", True)
    assert ratio.point == pytest.approx(10.0)


def test_no_partner_but_a_worse_one_means_no_ratio() -> None:
    """What papers quote: the tuned GPU against the CPU as written."""
    candidate = a_case(device="cuda:0", tuning="cuda-graph")
    assert understood(spread(CPU, 30.0), spread(candidate, 2.0, name="cuda-graph")).ratios == ()


def test_unequal_numerics_are_named() -> None:
    base, candidate = a_case(tuning="compile"), a_case(device="cuda:0", tuning="compile")
    ratio = only(spread(base, 20.0, name="compile"), spread(candidate, 2.0, name="compile"))
    assert (ratio.precision_base, ratio.precision_candidate, ratio.mixed) == ("default", "bf16", True)


def test_two_names_of_one_tuning_share_a_case() -> None:
    base, candidate = a_case(tuning="threads"), a_case(device="cuda:0", tuning="no-sync")
    ratio = only(spread(base, 20.0, name="threads"), spread(candidate, 2.0, name="no-sync"))
    assert ratio.tuning_base == "threads" and ratio.point == pytest.approx(10.0)


def test_a_tuning_without_a_name_is_called_by_its_settings() -> None:
    tuning = Tuning(layout="channels-last")
    lines = [
        spread(a_case(device=d, tuning=tuning), ms, name=None) for d, ms in (("cpu", 20.0), ("cuda:0", 5.0))
    ]
    assert only(*lines).tuning_name == "layout=channels-last"


def test_same_and_uncertain() -> None:
    assert only(spread(CPU, 20.0), spread(GPU, 19.9)).verdict is Verdict.SAME
    lines = [sampled(CPU, i, ms) for i, ms in enumerate((20.0, 21.0, 19.0))]
    lines += [sampled(GPU, i, ms) for i, ms in enumerate((19.0, 17.5, 19.5))]
    ratio = only(lines)
    assert ratio.verdict is Verdict.UNCERTAIN and ratio.processes_needed and ratio.processes_needed > 3


def test_holm_runs_over_the_file() -> None:
    def lines(count: int) -> list[Attempt]:
        made = []
        for batch in range(1, count + 1):
            for device, level in (("cpu", 20.0), ("cuda:0", 18.0)):
                case = a_case(device=device, batch=batch)
                made += [
                    sampled(case, i, level * x)
                    for i, x in enumerate((1.0, 1.01, 0.98) if level > 19 else (1.0,) * 3)
                ]
        return made

    alone, many = understood(lines(1)).ratios[0], understood(lines(12)).ratios[0]
    assert alone.verdict is Verdict.FASTER and many.verdict is Verdict.UNCERTAIN
    assert alone.p_adjusted is not None and many.p_adjusted == pytest.approx(12 * alone.p_adjusted)


def test_whole_runs_have_a_ratio_of_their_own() -> None:
    lines = [full(CPU, i, train_s=4.0) for i in range(2)] + [full(GPU, i, train_s=1.0) for i in range(2)]
    found = understood(spread(CPU, 20.0), spread(GPU, 5.0), lines)
    assert [r.of for r in found.ratios] == ["step", "full"]
    assert found.ratios[1].ratio is not None and found.ratios[1].point == pytest.approx(14.3 / 5.3)


def test_a_resumed_run_enters_no_ratio() -> None:
    first = full(GPU, epochs=[0, 1], outcome="interrupted")
    last = full(GPU, epochs=[2], attempt=1, continues=first.attempt_id)
    (ratio,) = understood(full(CPU, train_s=4.0), first, last).ratios
    assert ratio.point is None


# --- parity


def learned(case_of: dict[int, float], device: str, data: str = "digits") -> list[Attempt]:
    return [full(a_case(device=device, seed=seed, data=data), accuracy=acc) for seed, acc in case_of.items()]


@pytest.mark.parametrize(
    ("gpu", "verdict"),
    [
        ({0: 0.901, 1: 0.899, 2: 0.900}, "equivalent"),
        ({0: 0.851, 1: 0.849, 2: 0.850}, "different"),
        ({0: 0.95, 1: 0.85, 2: 0.90}, "cannot tell"),
    ],
)
def test_parity_over_seeds(gpu: dict[int, float], verdict: str) -> None:
    found = understood(learned({0: 0.900, 1: 0.901, 2: 0.899}, "cpu"), learned(gpu, "cuda:0"))
    (parity,) = found.parity
    assert parity.verdict == verdict and parity.margin == 0.01
    assert parity.base_accuracies == (0.900, 0.901, 0.899)


def test_the_margin_is_the_study_s() -> None:
    lines = learned({0: 0.900, 1: 0.901, 2: 0.899}, "cpu") + learned({0: 0.89, 1: 0.891, 2: 0.889}, "cuda:0")
    study = a_study([line.case for line in lines], {"accuracy_margin": 0.05})
    assert understood(study, lines).parity[0].verdict == "equivalent"


def test_processes_of_one_seed_are_one_trial() -> None:
    lines = [full(case, i, accuracy=0.9) for case in (CPU, GPU) for i in range(3)]
    (parity,) = understood(lines).parity
    assert parity.verdict == "cannot tell" and parity.base_accuracies == (pytest.approx(0.9),)
    assert parity.reason == "one seed a device; more seeds can: --full --set 'seed=[0, 1, 2]'"


def test_one_run_a_device_says_that_a_seed_is_not_enough() -> None:
    """Also where another tuning was sampled only, and the latest study asks for no full run."""
    other = [a_case(device=device, tuning="channels-last") for device in ("cpu", "cuda:0")]
    lines = [a for case in other for a in spread(case, 5.0, name="channels-last")]
    found = understood(lines, spread(CPU, 20.0), spread(GPU, 5.0), full(CPU), full(GPU))
    said = [line for line in found.sentences if line.startswith("Accuracy")]
    assert said == [
        "Accuracy: cannot tell (one seed a device; more seeds can: --full --set 'seed=[0, 1, 2]')."
    ]
    half = understood(spread(CPU, 20.0), spread(GPU, 5.0), full(GPU)).parity[0]
    assert half.reason == "its full runs are not finished"


def test_sampled_attempts_tell_no_accuracy() -> None:
    (parity,) = understood(spread(CPU, 20.0, accuracy=0.1), spread(GPU, 5.0, accuracy=0.1)).parity
    assert (parity.verdict, parity.reason) == ("cannot tell", "sampled; add --full")


def test_synthetic_data_teaches_nothing() -> None:
    lines = learned({0: 0.1, 1: 0.1}, "cpu", "synthetic") + learned({0: 0.1, 1: 0.1}, "cuda:0", "synthetic")
    found = understood(lines)
    assert found.parity[0].base_accuracies == () and "synthetic" in (found.parity[0].reason or "")
    assert not any("ccuracy" in line for line in found.sentences)


# --- the law of size

MODELS = ("simple-cnn", "resnet18", "resnet34", "resnet50", "resnet101")


def law(exponent: float, models: tuple[str, ...] = MODELS, sd: float = 0.0, n: int = 3) -> list[Attempt]:
    lines = []
    for name in models:
        size = parameter_count(model(name))
        gain = 2.0 * (size / 1e5) ** exponent
        cases = [(a_case(name, device), ms) for device, ms in (("cpu", 100.0), ("cuda:0", 100.0 / gain))]
        lines += [a for case, ms in cases for a in spread(case, ms, sd=sd, n=n, parameters=size)]
    return lines


@pytest.mark.parametrize("exponent", [0.4, -0.25])
def test_the_planted_exponent_comes_back(exponent: float) -> None:
    found = {s.against: s for s in understood(law(exponent)).scale}
    law_found = found["parameters"]
    assert law_found.exponent is not None and law_found.exponent.estimate == pytest.approx(exponent, abs=1e-6)
    assert law_found.verdict == ("grows" if exponent > 0 else "shrinks")
    sizes = [size for _, size, _ in found["flops"].points]
    assert sizes == sorted(training_flops(model(name), 128) for name in MODELS)


def test_a_noisy_flat_law_cannot_be_told() -> None:
    found = understood(law(0.0, sd=0.03)).scale[0]
    assert found.verdict == "cannot be told" and found.reason


def test_two_models_make_no_law() -> None:
    assert understood(law(0.4, MODELS[:2])).scale == ()


def test_ratios_without_an_interval_make_no_law() -> None:
    found = understood(law(0.4, n=1)).scale[0]
    assert found.exponent is None and found.reason == "0 of 5 models have a ratio with an interval"


def test_the_order_of_lines_does_not_matter() -> None:
    lines = [*spread(CPU, 20.0, sd=0.03), *spread(GPU, 5.0, sd=0.03)]
    seen = set()
    for order in itertools.islice(itertools.permutations(lines), 0, 720, 97):
        ratio = only(list(order))
        seen.add((ratio.ratio, ratio.verdict))
    assert len(seen) == 1


def test_findings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        only(spread(CPU, 20.0), spread(GPU, 5.0)).point = 1.0  # type: ignore[misc]


def law_of(units: Sequence[str], **changes: Any) -> list[str]:
    """The verdicts of the laws of three sizes whose ratio follows the parameters, measured on `units`."""
    lines = []
    for (name, ratio), unit in zip(
        (("simple-cnn", 2), ("resnet18", 30), ("resnet50", 60)), units, strict=True
    ):
        for device, ms in (("cpu", 100.0), ("cuda:0", 100.0 / ratio)):
            made = spread(a_case(name, device), ms, sd=0.001, parameters=None)
            lines += [again(a, fingerprint_id=unit, **changes) for a in made]
    return [law.verdict for law in understood(lines).scale if law.against == "parameters"]


def test_a_law_is_no_surer_than_its_ratios_verdicts_and_of_one_machine() -> None:
    """Naive: exponent 0.9 [0.7, 1.0], from ratios that a neighbour made, or of which one is elsewhere's."""
    assert law_of(["f0", "f0", "f0"]) == ["grows"]
    assert law_of(["f0", "f0", "f0"], flags=("contended",)) == ["cannot be told"]
    assert law_of(["f0", "f0", "f1"]) == ["cannot be told"]
