"""The ladder as a whole, and the choice of the fastest."""

import dataclasses

import pytest

from breakeven.records import ladder
from breakeven.records.case import Case, Tuning, Work, applicable, parse_device
from breakeven.records.lines import Attempt, Block, Check
from breakeven.records.selection import choices
from breakeven.records.tuning import LADDERS, preset

WORK = Work(task="train", model="resnet18", data="digits", data_version="1", data_hash="d", batch=64)


def top(device: str) -> Case:
    place = parse_device(device)
    return applicable(Case(work=WORK, tuning=preset(ladder.steps(place.kind)[-1], place.kind), device=place))


@pytest.mark.parametrize("kind", list(LADDERS))
def test_less_nothing_is_the_full_stack_and_less_all_the_first_step(kind: str) -> None:
    steps = ladder.steps(kind)
    assert ladder.less([], kind) == preset(steps[-1], kind)
    assert ladder.less(steps[1:], kind) == preset(steps[0], kind)
    assert ladder.less(steps[-1:], kind) == preset(steps[-2], kind)


@pytest.mark.parametrize(
    ("removed", "execution", "optimizer"),
    [
        (["cuda-graph"], "compile:default", "auto"),
        (["compile"], "cuda-graph", "fused"),
        (["cuda-graph", "compile"], "eager", "auto"),
        (["channels-last"], "cuda-graph+compile:default", "fused"),
    ],
)
def test_a_step_takes_its_part_of_the_execution_along(
    removed: list[str], execution: str, optimizer: str
) -> None:
    tuning = ladder.less(removed, "cuda")
    assert (tuning.execution, tuning.optimizer_impl) == (execution, optimizer)
    assert (tuning.layout == "channels-first") == ("channels-last" in removed)


def test_the_precision_of_the_full_stack_is_a_step_of_its_own() -> None:
    for kind in LADDERS:
        assert ladder.changes_numerics(kind) == ("bf16",)
        assert ladder.numerics(ladder.less(["bf16"], kind)) == ladder.numerics(Tuning())


@pytest.mark.parametrize(("device", "idle"), [("cuda:0", {"workers"}), ("cpu", {"workers", "threads"})])
def test_idle_steps_change_nothing(device: str, idle: set[str]) -> None:
    """With the data on the device no loader is left, and `threads` is the framework's choice anyway."""
    case = top(device)
    assert {step for step in ladder.steps(case.device.kind)[1:] if ladder.idle(step, case)} == idle


def test_names_read_back() -> None:
    for kind in LADDERS:
        for removed in (["bf16"], ["no-sync", "bf16"]):
            assert list(ladder.removed_by(ladder.less_name(removed, kind))) == removed
    for other in ("compile", "as-written", "my less bf16", "compile less sugar", "compile less "):
        assert ladder.removed_by(other) == ()


def timed(tuning: str, ms: float, purpose: str = "measure", **changes: object) -> Attempt:
    case = applicable(Case(work=WORK, tuning=preset(tuning, "cuda"), device=parse_device("cuda:0")))
    made = Attempt(
        case_id=case.case_id, work_id=case.work_id, tuning_id=case.tuning_id, work=case.work,
        tuning=case.tuning, device=case.device, tuning_name=tuning, replicate=0, order_index=0,
        started_utc="", outcome="ok", region="train_step", purpose=purpose, fingerprint_id="f0",  # type: ignore[arg-type]
        blocks=(Block(n_steps=1, samples=64, ns=round(ms * 1e6)),),
    )  # fmt: skip
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_the_fastest_of_the_same_and_of_any_numerics() -> None:
    lines = [timed("as-written", 9.0), timed("workers", 3.0), timed("bf16", 2.0, "select")]
    (choice,) = choices(lines, {a.case_id for a in lines[:2]}).values()
    ids = [a.case_id for a in lines]
    assert (choice.reference, choice.same, choice.any) == tuple(ids)
    assert choice.wanted == tuple(ids) and set(choice.candidates) == set(ids)
    assert choice.names[ids[2]] == "bf16"


def test_what_confirms_does_not_choose() -> None:
    lines = [timed("as-written", 9.0), timed("workers", 3.0), timed("as-written", 1.0, "confirm")]
    (choice,) = choices(lines, {a.case_id for a in lines}).values()
    assert choice.same == lines[1].case_id


def test_what_failed_or_is_not_of_the_study_is_not_chosen() -> None:
    first, second = timed("as-written", 9.0), timed("workers", 3.0)
    strange, failed = timed("on-device", 1.0), timed("no-sync", 1.0, outcome="invalid")
    (choice,) = choices(
        [first, second, strange, failed], {x.case_id for x in (first, second, failed)}
    ).values()
    assert choice.same == choice.any == second.case_id


def test_times_of_another_unit_do_not_mix() -> None:
    lines = [timed("as-written", 9.0), timed("workers", 3.0)]
    lines.append(timed("on-device", 1.0, fingerprint_id="f1"))
    (choice,) = choices(lines, {a.case_id for a in lines}).values()
    assert choice.same == lines[1].case_id


def test_nothing_to_choose_is_nothing_to_confirm() -> None:
    failed = timed("as-written", 9.0, outcome="oom")
    (choice,) = choices([failed], {failed.case_id}).values()
    assert choice.wanted == () and choice.same is choice.any is None


def test_other_work_and_what_a_check_refuted_are_not_chosen() -> None:
    """Naive: the fastest is a step that trains other weights, or one whose loss is wrong."""
    lines = [again(timed("as-written", 9.0), "w0"), again(timed("workers", 8.0), "w0"),
             again(timed("on-device", 1.0), "w1"), again(timed("no-sync", 2.0), "w0")]  # fmt: skip
    refuted = Check(
        case_id=lines[3].case_id,
        fingerprint_id="f0",
        started_utc="",
        outcome="output_mismatch",
        reason="loss",
    )
    (choice,) = choices(lines, {a.case_id for a in lines}, [refuted]).values()
    assert choice.same == choice.any == lines[1].case_id


def again(attempt: Attempt, weights: str) -> Attempt:
    return dataclasses.replace(attempt, hashes={"weights": weights})
