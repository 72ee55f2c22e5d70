"""Lines that do not fit together are left out and pointed out, never averaged in."""

import dataclasses
import random

import pytest

from breakeven.analysis import understand
from breakeven.records.canonical import digest
from breakeven.records.case import Case
from breakeven.records.lines import Attempt, Block, Check, Fingerprint

from .conftest import a_case, a_machine, a_study, file_of, sampled, understood

CPU, GPU = a_case(device="cpu"), a_case(device="cuda:0")


def both(n: int = 3) -> list:
    lines = []
    for replicate in range(n):
        wobble = 1 + 0.001 * replicate
        lines.append(sampled(CPU, replicate, 20.0 * wobble, parent_id=f"p{replicate}"))
        lines.append(sampled(GPU, replicate, 10.0 / wobble, parent_id=f"p{replicate}"))
    return lines


def left_out(found) -> list[str]:
    return [q.text for q in found.quality if q.flag == "left_out"]


def test_honest_lines_are_all_believed() -> None:
    found = understood(a_study([CPU, GPU]), *both())
    assert left_out(found) == []
    assert found.ratios[0].verdict == "faster"


def test_a_line_whose_ids_are_not_its_own_is_left_out() -> None:
    lines = both()
    lines[1] = dataclasses.replace(lines[1], work=dataclasses.replace(lines[1].work, model="resnet152"))
    found = understood(a_study([CPU, GPU]), *lines)
    assert "ids do not belong" in left_out(found)[0]
    assert all(case.case.work.model == "resnet18" for case in found.cases)


def test_replicates_of_one_parent_count_once() -> None:
    lines = [dataclasses.replace(line, parent_id="p") for line in both()]
    found = understood(a_study([CPU, GPU]), *lines)
    assert "share a parent" in left_out(found)[0]
    assert found.ratios[0].ratio is None


def test_a_second_line_of_one_attempt_does_not_replace_the_first() -> None:
    forged = sampled(GPU, 0, 0.1, parent_id="p0")
    found = understood(a_study([CPU, GPU]), *both(), forged)
    assert "same id" in left_out(found)[0]
    assert found.ratios[0].point is not None and 1.9 < found.ratios[0].point < 2.1
    copied = understood(a_study([CPU, GPU]), *both(), *both())
    assert left_out(copied) == []  # an exact copy says nothing new and nothing wrong


def test_what_ran_elsewhere_is_left_out() -> None:
    lines = [dataclasses.replace(line, observed={"device": "cpu"}) for line in both()]
    found = understood(a_study([CPU, GPU]), *lines)
    assert "ran on cpu" in left_out(found)[0]
    assert found.ratios == ()


def test_blocks_of_other_samples_are_left_out() -> None:
    lines = both()
    odd = Block(n_steps=5, samples=5, ns=50_000_000)
    lines[1] = dataclasses.replace(lines[1], blocks=(*lines[1].blocks, odd))
    assert "other samples" in left_out(understood(a_study([CPU, GPU]), *lines))[0]


def test_an_unknown_machine_pairs_with_nothing() -> None:
    lines = [dataclasses.replace(line, fingerprint_id=None) for line in both()]
    assert understood(a_study([CPU, GPU]), *lines).ratios[0].ratio is None


def test_a_ratio_is_of_one_unit() -> None:
    other = [dataclasses.replace(line, fingerprint_id="f1") for line in both(2)]
    other = [
        dataclasses.replace(line, blocks=tuple(dataclasses.replace(b, ns=b.ns // 8) for b in line.blocks))
        if line.device.kind == "cuda"
        else line
        for line in other
    ]
    other = [dataclasses.replace(line, parent_id=f"{line.parent_id}x") for line in other]
    ratio = understood(a_study([CPU, GPU]), *both(), *other).ratios[0]
    assert ratio.point is not None and 1.9 < ratio.point < 2.1
    assert ratio.ratio is not None and ratio.ratio.n == 3


def test_sides_measured_one_after_the_other_give_no_verdict() -> None:
    lines = [dataclasses.replace(line, parent_id=f"{line.parent_id}{line.device.kind}") for line in both()]
    found = understand([file_of(a_study([CPU, GPU]), lines)])
    assert found.ratios[0].verdict is None
    assert "not_interleaved" in found.ratios[0].flags
    assert "not measured in turn" in found.sentences[0]


def test_two_processes_a_side_give_no_verdict() -> None:
    ratio = understood(a_study([CPU, GPU]), *both(2)).ratios[0]
    assert ratio.ratio is not None and ratio.verdict is None
    assert "fewest" in ratio.reasons["verdict"]


def test_a_level_shift_inside_a_process_is_pointed_out() -> None:
    def shifted(line):
        steady = [Block(n_steps=5, samples=640, ns=ns) for ns in (50_000_000,) * 6 + (500_000_000,) * 5]
        return dataclasses.replace(line, blocks=tuple(steady))

    found = understood(a_study([CPU, GPU]), *(shifted(line) for line in both()))
    assert all("uneven" in case.flags for case in found.cases)
    assert any(q.flag == "uneven" for q in found.quality)


def test_settings_that_differ_under_one_name_are_marked() -> None:
    tuned = dataclasses.replace(GPU.tuning, layout="channels-last", workers=8, prefetch=2)
    other = dataclasses.replace(GPU, tuning=tuned)
    lines = [line for line in both() if line.device.kind == "cpu"]
    lines += [sampled(other, r, 10.0, parent_id=f"p{r}") for r in range(3)]
    found = understood(a_study([CPU, other]), *lines)
    assert found.ratios[0].mixed


def jittery(case: Case, replicate: int, seed: int) -> Attempt:
    draw = random.Random(seed)
    blocks = tuple(Block(n_steps=5, samples=5 * 128, ns=round(5e7 * draw.gauss(1, 0.02))) for _ in range(20))
    return sampled(case, replicate, 10.0, blocks=blocks, parent_id=f"p{replicate}")


def test_one_process_copied_under_new_numbers_stays_one() -> None:
    """Three lines, three parents, an interval of no width: all of one process."""
    one = jittery(CPU, 0, seed=1)
    copies = [dataclasses.replace(one, replicate=i, parent_id=f"p{i}") for i in range(3)]
    found = understood(a_study([CPU]), *copies)
    assert "to the nanosecond" in left_out(found)[0]
    assert found.cases[0].processes == 1 and found.cases[0].step_s is None
    honest = understood(a_study([CPU]), *(jittery(CPU, i, seed=i) for i in range(3)))
    assert left_out(honest) == [] and honest.cases[0].processes == 3


def test_a_machine_whose_facts_were_edited_is_pointed_out() -> None:
    line = a_machine(2)
    mine = digest("fingerprint", {"platform": line.platform, "unit": line.unit})
    line = dataclasses.replace(line, fingerprint_id=mine)
    faster = dataclasses.replace(line, platform={**line.platform, "cpu": {"model": "Fast CPU"}})

    def flags(machine: Fingerprint) -> list[str]:
        return [q.flag for q in understood(machine, *both()).quality]

    assert "edited_machine" in flags(faster) and "edited_machine" not in flags(line)


def test_two_versions_of_the_tool_in_one_file_are_pointed_out() -> None:
    old, new = (a_study([CPU, GPU], tool_version=version) for version in ("0.1.0", "0.2.0"))
    first, rest = both()[:2], both()[2:]
    (told,) = [q for q in understood(old, first, new, rest).quality if q.flag == "several_versions"]
    assert "0.1.0 and 0.2.0" in told.text
    for lines in ([old, first, old, rest], [old, first, rest, new]):  # the new one found nothing to do
        assert not [q for q in understood(*lines).quality if q.flag == "several_versions"]


def test_one_name_of_two_works_has_no_number() -> None:
    """A net that changed between two versions of the tool: the mean of both is the time of neither."""
    lines = [dataclasses.replace(line, hashes={"weights": f"w{i // 4}"}) for i, line in enumerate(both())]
    found = understood(a_study([CPU, GPU]), *lines)
    assert all(case.step_point_s is None and "different weights" in str(case.failure) for case in found.cases)
    assert found.ratios[0].point is None
    same = understood(a_study([CPU, GPU]), *both())
    assert same.ratios[0].point is not None


def test_a_case_on_cores_of_two_speeds_is_pointed_out() -> None:
    """Two rented machines of one description: their fingerprints agree, their cores do not."""

    def flags(*speeds: float) -> tuple[str, ...]:
        lines = [
            dataclasses.replace(line, observed={"core_loop_ns": ns})
            for line, ns in zip(both()[::2], speeds, strict=True)
        ]
        return understood(a_study([CPU]), *lines).cases[0].flags

    assert "uneven_core" in flags(50.0, 51.0, 70.0)
    assert "uneven_core" not in flags(50.0, 51.0, 60.0)


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("one_step_parity", {"asked": {"loss": 1e-5, "gradient": 0.1}, "found": {"gradient": 0.4}}),
        ("output_error", {"asked": 0.1, "found": 0.4}),
        ("output", {"asked": {"relative_l2": 0.1}, "found": {"relative_l2": 0.4, "max_abs": 0.01}}),
        ("agreement", {"asked": 0.9, "found": 0.4}),
    ],
)  # fmt: skip
def test_a_check_called_ok_beyond_its_limit_has_failed(name: str, figures: dict) -> None:
    line = Check(
        case_id=GPU.case_id, fingerprint_id="f0", started_utc="t", outcome="ok",
        checks={name: {**figures, "ok": True, "note": None}},
    )  # fmt: skip
    found = understood(a_study([CPU, GPU]), *both(), line)
    (told,) = [q for q in found.quality if q.flag == "check_overruled"]
    assert told.cases == 1 and told.evidence == (f"{GPU.case_id}/check/f0",)
    (case,) = [c for c in found.cases if c.case_id == GPU.case_id]
    assert case.failure is not None and name in case.failure and "0.4" in case.failure
    assert not any(r.ratio for r in found.ratios)
    sound = dataclasses.replace(line, checks={name: {"asked": 0.4, "found": 0.4, "ok": True, "note": None}})
    assert not [q for q in understood(a_study([CPU]), *both(), sound).quality if q.flag == "check_overruled"]


def test_a_case_of_fp32_that_read_back_bf16_is_left_out() -> None:
    case = a_case(tuning=dataclasses.replace(CPU.tuning, precision="fp32"))
    lines = [sampled(case, i, 20.0 + i, observed={"conv_precision": "bf16"}) for i in range(3)]
    assert left_out(understood(a_study([case]), *lines)) == [
        "attempts left out: bf16 was read back of a case in fp32"
    ]
    honest = [sampled(case, i, 20.0 + i, observed={"conv_precision": "ieee"}) for i in range(3)]
    assert left_out(understood(a_study([case]), *honest)) == []
