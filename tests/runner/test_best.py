"""Ladders, leave-one-outs and the best: what is planned, measured on simulated devices, chosen, resumed."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from breakeven import api
from breakeven.errors import UserError
from breakeven.records import file, ladder
from breakeven.records.case import Case
from breakeven.records.lines import Attempt, Block
from breakeven.records.tuning import PRESETS
from breakeven.runner.best import losing_steps
from breakeven.runner.estimate import best_attempts, estimate_seconds
from breakeven.runner.plan import Plan, plan
from breakeven.runner.study import Study, load_study, read_study, resolved

QUIET = "sim:gpu:noise=0:process=0"


def study(tuning: str, device: str = QUIET, **keys: Any) -> Study:
    listed = {"model": "simple-cnn", "device": [device], "attempt_time": 4.0, "max_replicates": 3} | keys
    return read_study("\n".join([f"{k}: {v!r}" for k, v in listed.items()] + [f"tuning: {tuning}"]), "t.yaml")


def planned(text: str, *, gpus: int = 1) -> Plan:
    return plan(read_study(text, "t.yaml"), cores=8, gpus=gpus)


def measured(folder: Path) -> tuple[Attempt, ...]:
    return file.read(folder).attempts


def purposes(folder: Path) -> Counter[str]:
    return Counter(a.purpose for a in measured(folder))


def test_the_ladder_follows_the_kind_of_device() -> None:
    found = planned("model: resnet18\ndevice: [cpu, 'cuda:0']\ntuning: ladder")
    for kind, other in (("cpu", "cuda-graph"), ("cuda", "threads")):
        names = [item.tuning_name for item in found.cases if item.case.device.kind == kind]
        # `threads` is `no-sync` where no number was chosen: one case, one name.
        assert sorted(names) == sorted(set(ladder.steps(kind)) - {"threads"}) and other not in names


def test_leave_one_out_starts_from_each_device_s_top() -> None:
    found = planned("model: resnet18\ndevice: [cpu, 'cuda:0']\ntuning: [ladder, leave-one-out]")
    names = {
        kind: {ladder.removed_by(i.tuning_name) for i in found.cases if i.case.device.kind == kind} - {()}
        for kind in ("cpu", "cuda")
    }
    # Without the last step it is the preset before it, measured under that name.
    assert names["cpu"] == {("on-device",), ("no-sync",), ("channels-last",), ("compile",)}
    assert names["cuda"] == {("on-device",), ("no-sync",), ("cuda-graph",), ("channels-last",), ("bf16",)}
    assert {i.tuning_name for i in found.cases if "less no-sync" in i.tuning_name} == {
        "bf16 less no-sync",
        "compile less no-sync",
    }


def test_a_removal_without_effect_or_that_cannot_run_is_skipped_with_a_reason() -> None:
    def refuses(case: Any) -> str | None:
        return "a captured step needs its data there" if case.tuning.residency == "host" else None

    text = "model: resnet18\ndevice: 'cuda:0'\ntuning: [on-device, compile, leave-one-out]"
    found = plan(read_study(text, "t.yaml"), cores=8, gpus=1, supports=refuses)
    reasons = {skip.what: skip.reason for skip in found.skips}
    assert "leave nothing of workers" in reasons["compile less workers on cuda:0"]
    assert "captured step" in reasons["torch compile less on-device on cuda:0"]


def test_one_removal_can_be_excluded() -> None:
    text = "model: resnet18\ndevice: 'cuda:0'\ntuning: [compile, leave-one-out]\n"
    names = [i.tuning_name for i in planned(text + "exclude: {tuning: compile less bf16}").cases]
    assert "compile less bf16" not in names and "compile less no-sync" in names
    with pytest.raises(UserError, match="no tuning of this study"):
        planned(text + "exclude: {tuning: compile less sugar}")


def test_groups_read_back_and_stand_alone() -> None:
    for text in ("[ladder, leave-one-out, best]", "[as-written, best]"):
        made = study(text)
        assert made.best and read_study(str(resolved(made)).replace("None", "null"), "again") == made
    assert load_study(["resnet18"], {"tuning": ["ladder", "best"]}).best
    with pytest.raises(UserError, match="nothing to be better than"):
        study("best")
    with pytest.raises(UserError, match="stands for many"):
        study("[{name: mine, preset: best}]")


def test_the_plan_counts_what_chooses_and_confirms() -> None:
    plain, best = (planned(f"model: resnet18\ndevice: [cpu, 'cuda:0']\ntuning: {t}") for t in (
        "as-written", "[as-written, best]"))  # fmt: skip
    assert best_attempts(plain) == (0, 0) and not plain.candidates
    names = {i.tuning_name for i in best.candidates if i.case.device.kind == "cuda"}
    assert names == (set(PRESETS) - {"as-written", "threads"}) | {"compile less bf16"}
    few, many = best_attempts(best)
    # Confirmed is the best alone at least; at most the loop as written, two best, and two leaner stacks.
    assert (few, many) == (len(best.candidates) + 2 * 3, len(best.candidates) + 2 * (2 + 3 * 3))
    assert all(b > a for a, b in zip(estimate_seconds(plain), estimate_seconds(best), strict=True))


def test_the_full_ladder_leaves_nothing_but_lean_stacks_to_try() -> None:
    assert (
        planned("model: resnet18\ndevice: 'cuda:0'\ntuning: [ladder, leave-one-out, best]").candidates == ()
    )


def test_a_study_that_sets_the_precision_tries_no_other() -> None:
    found = planned("model: resnet18\ndevice: 'cuda:0'\nprecision: fp32\ntuning: [as-written, best]")
    assert found.candidates == ()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study: as-written takes 3 attempts, choosing 8, confirming 9."""
    folder = tmp_path_factory.mktemp("whole")
    assert api.measure(study("[as-written, best]"), folder).stopped is None
    return folder


def test_candidates_are_tried_once_and_the_best_measured_afresh(whole: Path) -> None:
    lines = measured(whole)
    assert Counter(Counter((a.case_id, a.purpose) for a in lines if a.purpose == "select").values()) == {1: 8}
    confirmed = {a.tuning_name for a in lines if a.purpose == "confirm"}
    # Planted: the graph and the compiler each launch once, so all but bf16 is the best of the same numerics.
    assert confirmed == {"as-written", "compile less bf16", "compile"}
    assert purposes(whole) == {"measure": 3, "select": 8, "confirm": 9}
    last = [a.purpose for a in lines]
    assert last == sorted(last, key=("measure", "select", "confirm").index)
    for case_id in {a.case_id for a in lines if a.purpose == "confirm"}:
        mine = [a for a in lines if a.case_id == case_id and a.purpose == "confirm"]
        assert [a.replicate for a in mine] == [0, 1, 2] and len({a.parent_id for a in mine}) == 3


def test_a_losing_step_is_tried_without(tmp_path: Path) -> None:
    """Planted: channels-last and BF16 each cost time. Both stay in the ladder; the best has neither."""
    device = f"{QUIET}:channels_last=0.7:bf16=0.8"
    api.measure(study("[ladder, best]", device), tmp_path)
    lines = measured(tmp_path)
    assert set(ladder.steps("sim")) <= {a.tuning_name for a in lines if a.purpose == "measure"}
    tried = {a.tuning_name for a in lines if a.purpose == "select"}
    assert "compile less channels-last, bf16" in tried
    chosen = {a.tuning_name for a in lines if a.purpose == "confirm"} - {"as-written"}
    assert chosen == {"compile less channels-last, bf16"}


def attempts_of(times: dict[str, float | None]) -> tuple[list[Attempt], Case]:
    """One attempt for each preset on a CPU, its step in milliseconds; None: it failed."""
    made = planned("model: resnet18\ndevice: cpu\ntuning: ladder").cases
    blocks = {
        n: (Block(n_steps=1, samples=128, ns=round(1e6 * ms)),) if ms else () for n, ms in times.items()
    }
    return [
        Attempt(
            case_id=item.case_id, work_id=item.case.work_id, tuning_id=item.case.tuning_id,
            work=item.case.work, tuning=item.case.tuning, device=item.case.device,
            tuning_name=item.tuning_name, replicate=0, order_index=0, started_utc="", region="train_step",
            outcome="ok" if times[item.tuning_name] else "output_mismatch", blocks=blocks[item.tuning_name],
        )
        for item in made
        if item.tuning_name in times
    ], made[0].case  # fmt: skip


def test_what_loses_or_fails_is_left_out_of_the_lean_stack() -> None:
    times: dict[str, float | None] = {
        "as-written": 90.0, "workers": 95.0, "on-device": 50.0, "no-sync": 51.0, "channels-last": 40.0,
        "compile": None, "bf16": None,
    }  # fmt: skip
    # 2 % is no loss; `threads` is `no-sync`; BF16 stands on the compiler and may have failed for its sake.
    assert losing_steps(*attempts_of(times)) == {"workers", "compile"}
    times |= {"compile": 30.0, "bf16": 33.0}
    assert losing_steps(*attempts_of(times)) == {"workers", "bf16"}


def test_running_again_measures_nothing(whole: Path) -> None:
    before = (whole / file.NAME).read_bytes()
    assert api.measure(study("[as-written, best]"), whole).attempts == 0
    assert (whole / file.NAME).read_bytes() == before


@pytest.mark.parametrize("after", [4, pytest.param(14, marks=pytest.mark.slow)])
def test_a_stop_in_any_stage_costs_nothing(tmp_path: Path, whole: Path, after: int) -> None:
    seen = 0

    def count(event: Any) -> None:
        nonlocal seen
        seen += event.kind == "line"

    asked = study("[as-written, best]")
    stopped = api.measure(asked, tmp_path, on_event=count, hurry=lambda: "finish" if seen >= after else None)
    assert stopped.stopped == "interrupted" and stopped.attempts == after
    rest = api.measure(asked, tmp_path)
    assert (rest.stopped, rest.attempts) == (None, 20 - after)
    found = [{(a.attempt_id, a.blocks) for a in measured(folder)} for folder in (tmp_path, whole)]
    assert found[0] == found[1]


def test_asking_for_the_best_later_reuses_what_is_there_and_confirms_with_luck_of_its_own(
    tmp_path: Path,
) -> None:
    device = "sim:gpu:noise=0.01:process=0.05"
    api.measure(study("as-written", device), tmp_path)
    summary = api.measure(study("[as-written, best]", device), tmp_path)
    assert (summary.reused, purposes(tmp_path)["measure"]) == (3, 3)
    lines = [a for a in measured(tmp_path) if a.tuning_name == "as-written" and a.replicate == 0]
    assert {a.purpose for a in lines} == {"measure", "confirm"}
    assert len({a.blocks for a in lines}) == 2
