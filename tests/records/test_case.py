"""Ids: equal cases get equal ids on every machine, later axes leave old ids intact."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.errors import UserError
from breakeven.records.canonical import canonical, digest, without_defaults
from breakeven.records.case import Case, Device, Recipe, Tuning, Work, applicable, parse_device
from breakeven.records.tuning import INFERENCE, LADDERS, PRESETS, preset, preset_used, presets


def work(**changes: object) -> Work:
    values: dict[str, object] = {
        "task": "train", "model": "resnet18", "data": "digits", "data_version": "1", "data_hash": "abc",
        "batch": 128, "recipe": Recipe(),
    }  # fmt: skip
    return Work(**(values | changes))  # type: ignore[arg-type]


def test_golden_ids_never_change() -> None:
    """These ids stand in results files: if this fails, raise ID_VERSION instead of editing the test."""
    case = Case(work=work(), tuning=Tuning(), device=Device(kind="cpu"))
    assert (case.work_id, case.tuning_id, case.case_id) == (
        "67f5ddc76dc8df61",
        "7ddfe2f8d0b132fb",
        "5232336c42db3d1d",
    )


def test_a_later_axis_leaves_old_ids_intact() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Now:
        model: str
        batch: int = 128

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Later:
        model: str
        batch: int = 128
        sparsity: float | None = None

    assert digest("work", Now(model="a")) == digest("work", Later(model="a"))
    assert digest("work", Now(model="a")) != digest("work", Later(model="a", sparsity=0.5))


def test_equal_numbers_of_other_types_are_not_the_default() -> None:
    assert without_defaults(Recipe(epochs=10)) == {}
    assert "epochs" in without_defaults(Recipe(epochs=True))  # True == 1, but is no count of epochs


def test_the_machine_is_not_in_an_id() -> None:
    assert "auto" in canonical(dataclasses.asdict(Tuning()))
    cpu = Case(work=work(), tuning=Tuning(), device=parse_device("cpu"))
    assert cpu.case_id != Case(work=work(), tuning=Tuning(), device=parse_device("cpu:threads=1")).case_id


@pytest.mark.parametrize(
    "change",
    [{"model": "resnet50"}, {"batch": 64}, {"seed": 1}, {"data": "synthetic"}, {"recipe": Recipe(lr=0.1)}],
)
def test_other_work_has_another_id(change: dict[str, object]) -> None:
    assert digest("work", work()) != digest("work", work(**change))


def test_seeds_pool_and_nothing_else_does() -> None:
    def pool(**changes: object) -> str:
        return Case(work=work(**changes), tuning=Tuning(), device=Device(kind="cpu")).pool_id

    assert pool(seed=1) == pool(seed=2)
    assert pool(seed=1) != pool(seed=1, batch=64)


def test_settings_that_do_not_apply_cannot_split_an_id() -> None:
    def case_id(**tuning: object) -> str:
        return applicable(
            Case(work=work(), tuning=Tuning(**tuning), device=Device(kind="cpu"))  # type: ignore[arg-type]
        ).case_id

    assert case_id(residency="device", workers=8) == case_id(residency="device", workers=0, pinned=True)
    assert case_id(pinned=True) == case_id(pinned=False)  # page-locked memory exists for accelerators only
    assert case_id(workers=0, prefetch=4) == case_id(workers=0)
    assert case_id(workers=2) != case_id(workers=4)


@given(st.text(max_size=30))
def test_any_device_text_parses_or_is_refused_in_one_line(text: str) -> None:
    try:
        device = parse_device(text)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert parse_device(device.label) == device


@pytest.mark.parametrize("text", ["cpu", "cpu:threads=4", "cuda:0", "cuda:1", "sim:gpu", "sim:gpu:noise=0.1"])
def test_a_label_names_its_device(text: str) -> None:
    assert parse_device(text).label == text


@pytest.mark.parametrize(
    "text", ["", "gpu", "cpu:0", "cpu:threads=0", "cuda:x", "sim:", "sim:gpu:noise", "cpu:threads"]
)
def test_a_wrong_device_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_device(text)


def test_presets_are_cumulative() -> None:
    for kind, ladder in LADDERS.items():
        names = [name for name, _ in ladder]
        for before, after in itertools.pairwise(names):
            changed = dict(ladder)[after]
            expected = dataclasses.replace(preset(before, kind), **changed)  # type: ignore[arg-type]
            assert preset(after, kind) == expected


def test_a_preset_of_the_other_device_falls_back_to_the_step_before_it() -> None:
    assert preset_used("cuda-graph", "cpu") == "no-sync"
    assert preset_used("threads", "cuda") == "no-sync"
    assert all(preset_used(name, "cpu") in dict(LADDERS["cpu"]) for name in PRESETS)
    with pytest.raises(UserError, match="did you mean 'as-written'"):
        preset("as-writen", "cpu")


def test_presets_of_inference_stand_side_by_side() -> None:
    assert presets("infer") == tuple(INFERENCE) and presets("train") == PRESETS
    made = {name: preset(name, "cuda", task="infer") for name in INFERENCE}
    assert len(set(made.values())) == len(made)
    assert {tuning.residency for tuning in made.values()} == {"device"}
    assert {tuning.precision for tuning in made.values()} == {"default"}
    assert made["compiled-graph"].captured and made["compiled-graph"].compile_mode == "default"
    # A name of both tasks is another tuning in each, and none of inference falls back to another.
    assert made["cuda-graph"] != preset("cuda-graph", "cuda")
    assert preset_used("cuda-graph", "cpu", task="infer") == "cuda-graph"
    with pytest.raises(UserError, match="unknown tuning 'workers'"):
        preset("workers", "cpu", task="infer")


def test_inference_has_no_loader() -> None:
    infer = work(task="infer", recipe=None)
    tuning = Tuning(residency="host", workers=8, pinned=True)
    on_gpu = applicable(Case(work=infer, tuning=tuning, device=Device(kind="cuda")))
    assert (on_gpu.tuning.workers, on_gpu.tuning.prefetch, on_gpu.tuning.pinned) == (None, None, True)
    on_cpu = applicable(Case(work=infer, tuning=tuning, device=Device(kind="cpu")))
    assert on_cpu.tuning.pinned is None
