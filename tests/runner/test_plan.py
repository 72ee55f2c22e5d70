"""Plans: the product of the axes minus excludes, skips with reasons, the order of attempts, the estimate."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.errors import UserError
from breakeven.records.case import Case, parse_device
from breakeven.records.tuning import PRESETS
from breakeven.runner.estimate import estimate_seconds
from breakeven.runner.grid import auto_devices
from breakeven.runner.plan import Plan, Skip, plan, runtimes_of, schedule
from breakeven.runner.study import builtin_studies, load_study, read_study
from breakeven.workloads.data import DATA


def made(text: str, *, cores: int = 8, gpus: int = 1, **asked: Any) -> Plan:
    return plan(read_study(text, "f.yaml"), cores=cores, gpus=gpus, **asked)


def refused(text: str, **machine: Any) -> str:
    with pytest.raises(UserError) as caught:
        made(text, **machine)
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize(
    ("cores", "gpus", "expected"),
    [
        (2, 1, ("cpu", "cuda:0")),
        (1, 4, ("cpu", "cuda:0")),
        (2, 0, ("cpu:threads=1", "cpu")),
        (1, 0, ("cpu",)),
    ],
)
def test_auto(cores: int, gpus: int, expected: tuple[str, ...]) -> None:
    assert auto_devices(cores, gpus) == expected
    found = made("model: resnet18", cores=cores, gpus=gpus)
    assert tuple(item.case.device.label for item in found.cases) == expected


def test_work_comes_from_the_catalog() -> None:
    text = "model: resnet18\ndevice: cpu\nbatch: 32\nseed: 3\nrecipe: {epochs: 2}"
    work = made(text).cases[0].case.work
    digits = DATA["digits"]
    assert (work.data, work.data_version, work.data_hash) == ("digits", digits.version, digits.identity)
    assert (work.num_classes, work.input_shape, work.batch, work.seed) == (10, (3, 32, 32), 32, 3)
    assert work.recipe is not None and work.recipe.epochs == 2
    assert made(text.replace("recipe: {epochs: 2}", "task: infer")).cases[0].case.work.recipe is None


def test_settings_that_do_not_apply_are_null() -> None:
    tuning = made("model: resnet18\ndevice: cpu\ntuning: on-device").cases[0].case.tuning
    assert (tuning.workers, tuning.pinned, tuning.residency) == (None, None, "device")


def test_axes_override_the_tuning_and_null_leaves_it() -> None:
    found = made("model: resnet18\ndevice: cuda:0\ntuning: [as-written, bf16]\nprecision: [null, tf32]")
    assert [item.case.tuning.precision for item in found.cases] == ["default", "bf16", "tf32", "tf32"]


def test_changes_stand_on_the_preset_of_the_device() -> None:
    found = made("model: resnet18\ntuning: {name: mine, preset: cuda-graph, layout: channels-last}")
    cpu, gpu = (item.case.tuning for item in found.cases)
    assert (cpu.execution, gpu.execution) == ("eager", "cuda-graph")
    assert cpu.layout == gpu.layout == "channels-last"
    assert {item.tuning_name for item in found.cases} == {"mine"} and not found.skips


def test_a_preset_of_the_other_device_falls_back_and_merges() -> None:
    found = made("model: resnet18\ntuning: [no-sync, cuda-graph]")
    assert [(item.case.device.label, item.tuning_name) for item in found.cases] == [
        ("cpu", "no-sync"),
        ("cuda:0", "no-sync"),
        ("cuda:0", "cuda-graph"),
    ]
    assert found.skips == (Skip(what="cuda-graph on cpu", reason="CUDA only; no-sync stands for it"),)


def test_the_ladder() -> None:
    found = made("model: resnet18\ntuning: ladder")
    names = [item.tuning_name for item in found.cases if item.case.device.kind == "cuda"]
    assert names == [name for name in PRESETS if name != "threads"]
    assert {skip.what for skip in found.skips} == {"cuda-graph on cpu", "threads on cuda:0"}


def test_a_simulated_device_implies_its_runtime() -> None:
    found = made("model: resnet18\ndevice: [sim:gpu, cpu]\nruntime: [null, torch]")
    assert [(item.case.device.label, item.case.tuning.runtime) for item in found.cases] == [
        ("sim:gpu", "sim"),
        ("cpu", "torch"),
    ]
    found = made("model: resnet18\ndevice: [sim:gpu, cpu]\nruntime: sim")
    assert found.skips == (Skip(what="runtime sim on cpu", reason="it runs sim: devices only"),)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ("torch",)),
        ("device: [sim:gpu, sim:cpu]", ("sim",)),
        ("device: [cpu, sim:cpu]", ("sim", "torch")),
        ("runtime: [sim, null]", ("sim", "torch")),
        ("tuning: {name: x, runtime: sim}", ("sim",)),
    ],
)
def test_runtimes_are_known_before_the_machine(text: str, names: tuple[str, ...]) -> None:
    assert runtimes_of(read_study(f"model: resnet18\n{text}", "f.yaml")) == names


@pytest.mark.parametrize(
    ("text", "machine", "skip"),
    [
        ("device: [cpu, cuda:99]", {"gpus": 1}, Skip(what="cuda:99", reason="only 1 GPU here")),
        ("device: [cpu, cuda:0]", {"gpus": 0}, Skip(what="cuda:0", reason="no GPU here")),
        (
            "device: [cpu, 'cpu:threads=9']",
            {"cores": 8},
            Skip(what="cpu:threads=9", reason="only 8 cores offered"),
        ),
        (
            "batch: [128, 2048]",
            {},
            Skip(
                what="batch 2048 on digits",
                reason="the training set holds 1437 samples and the last, partial batch is dropped",
            ),
        ),
    ],
)
def test_skips(text: str, machine: dict[str, int], skip: Skip) -> None:
    found = made(f"model: [resnet18, simple-cnn]\n{text}", **machine)
    assert found.skips == (skip,)
    assert found.cases


def test_inference_has_no_partial_batch_to_drop() -> None:
    assert not made("model: resnet18\nbatch: 2048\ntask: infer").skips


def test_what_a_runtime_cannot_do_is_skipped_with_its_reason() -> None:
    def supports(case: Case) -> str | None:
        return "no int8 kernels" if case.tuning.precision == "int8" else None

    found = made("model: resnet18\ndevice: cpu\nprecision: [null, int8]", supports=supports)
    assert len(found.cases) == 1
    assert found.skips == (Skip(what="torch as-written on cpu", reason="no int8 kernels"),)


def test_missing_data_is_skipped_but_not_for_a_simulated_device() -> None:
    def available(name: str) -> str | None:
        return "get it" if name == "cifar10" else None

    text = "model: resnet18\ndevice: [cpu, sim:gpu]\ndata: [digits, cifar10]"
    found = made(text, data_available=available)
    assert [(item.case.device.label, item.case.work.data) for item in found.cases] == [
        ("cpu", "digits"),
        ("sim:gpu", "digits"),
        ("sim:gpu", "cifar10"),
    ]
    assert found.skips == (Skip(what="data cifar10", reason="get it"),)
    message = refused("model: resnet18\ndevice: cpu\ndata: cifar10", data_available=available)
    assert message == "study f: no case can run here: data cifar10: get it"


def test_nothing_left_is_an_error() -> None:
    message = refused("model: resnet18\ndevice: cuda:99", gpus=2)
    assert message == "study f: no case can run here: cuda:99: only 2 GPUs here"
    assert "exclude leaves out every combination" in refused("model: resnet18\nexclude: {model: resnet18}")


def test_notes() -> None:
    found = made("model: resnet18\ndevice: cpu\ntuning: workers\nbaseline: cpu", cores=2)
    assert found.notes == ("8 loader workers on cpu: 2 cores offered",)
    assert found.cases[0].case.tuning.workers == 8
    found = made("model: resnet18\nbaseline: cuda:1\nexclude: {batch: 7}")
    assert found.notes == ("exclude 1 leaves nothing out here", "baseline cuda:1 is not measured here")


def test_exclude_matches_what_the_axis_left_to_the_tuning() -> None:
    found = made("model: resnet18\ntuning: [as-written, bf16]\nexclude: {device: cpu, precision: bf16}")
    assert [(item.case.device.label, item.tuning_name) for item in found.cases] == [
        ("cpu", "as-written"),
        ("cuda:0", "as-written"),
        ("cuda:0", "bf16"),
    ]


AXES: dict[str, list[Any]] = {
    "model": ["simple-cnn", "resnet18", "resnet50"],
    "device": ["cpu", "cuda:0", "sim:gpu"],
    "batch": [1, 2, 64],
    "data": ["digits", "fashion-mnist"],
    "seed": [0, 1, 5],
    "tuning": ["as-written", "on-device", "bf16"],
}


def chosen(values: Sequence[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True)


@st.composite
def grids(draw: st.DrawFn) -> tuple[dict[str, list[Any]], list[dict[str, list[Any]]]]:
    axes = {name: draw(chosen(values)) for name, values in AXES.items()}
    names = st.lists(st.sampled_from(sorted(axes)), min_size=1, max_size=3, unique=True)
    excludes = [
        {name: draw(chosen(axes[name])) for name in draw(names)} for _ in range(draw(st.integers(0, 2)))
    ]
    return axes, excludes


@given(grids())
def test_a_plan_is_the_product_minus_excludes(
    grid: tuple[dict[str, list[Any]], list[dict[str, list[Any]]]],
) -> None:
    axes, excludes = grid
    expected = [
        point
        for values in itertools.product(*axes.values())
        if not any(
            all(point[name] in wanted for name, wanted in item.items())
            for point in [dict(zip(axes, values, strict=True))]
            for item in excludes
        )
        for point in [dict(zip(axes, values, strict=True))]
    ]
    overrides = {**axes, "exclude": excludes}
    if not expected:
        with pytest.raises(UserError, match="exclude leaves out every combination"):
            plan(load_study(["quick"], overrides), cores=8, gpus=1)
        return
    found = plan(load_study(["quick"], overrides), cores=8, gpus=1)
    points = [
        {
            "model": item.case.work.model,
            "device": item.case.device.label,
            "batch": item.case.work.batch,
            "data": item.case.work.data,
            "seed": item.case.work.seed,
            "tuning": item.tuning_name,
        }
        for item in found.cases
    ]
    assert sorted(points, key=repr) == sorted(expected, key=repr)
    assert len({item.case_id for item in found.cases}) == len(found.cases)


@given(st.permutations(["model", "device", "batch", "tuning", "recipe", "seed", "attempt_time"]))
def test_ids_do_not_depend_on_the_order_of_keys(order: list[str]) -> None:
    parts = {
        "model": "model: resnet18",
        "device": "device: cpu",
        "batch": "batch: 64",
        "tuning": "tuning: {layout: channels-last, name: x, preset: workers, env: {B: b, A: a}}",
        "recipe": "recipe: {gamma: 0.5, lr: 0.01}",
        "seed": "seed: 2",
        "attempt_time": "attempt_time: 3",
    }
    found = made("\n".join(parts[key] for key in order))
    again = made("\n".join(parts.values()).replace("{B: b, A: a}", "{A: a, B: b}"))
    assert [item.case_id for item in found.cases] == [item.case_id for item in again.cases]


def test_ids_do_not_depend_on_the_machine_or_the_protocol() -> None:
    here = made("model: resnet18\ndevice: cpu\ntuning: workers", cores=2, gpus=0)
    there = made(
        "model: resnet18\ndevice: cpu\ntuning: workers\nreplicates: 9\nname: other", cores=64, gpus=8
    )
    assert here.cases == there.cases


def test_schedule_interleaves_and_repeats() -> None:
    cases = made("model: [simple-cnn, resnet18]\ntuning: [as-written, on-device, bf16]").cases
    order = schedule(cases, 3, 0)
    assert order == schedule(cases, 3, 0) == schedule(tuple(reversed(cases)), 3, 0)
    assert [index for _, index, _ in order] == list(range(3 * len(cases)))
    rounds = [[item.case_id for replicate, _, item in order if replicate == wanted] for wanted in range(3)]
    assert all(sorted(ids) == sorted(item.case_id for item in cases) for ids in rounds)
    assert len({tuple(ids) for ids in rounds}) == 3  # each replicate in an order of its own
    assert schedule(cases, 5, 0)[: len(order)] == order  # more replicates leave the first ones as they are
    assert schedule(cases, 3, 1) != order


def test_a_schedule_takes_plain_cases_too() -> None:
    cases = [item.case for item in made("model: [simple-cnn, resnet18]").cases]
    assert [case.case_id for _, _, case in schedule(cases, 1, 0)]


def test_estimate() -> None:
    quick = builtin_studies()["quick"]
    low, high = estimate_seconds(plan(quick, cores=2, gpus=0))
    assert 8 * 3 * quick.attempt_time < low < 120 and low < high < 150
    assert estimate_seconds(plan(quick, cores=2, gpus=0), attempt_time=20)[0] > 480
    capped = load_study(["quick"], {"max_time": "10s"})
    assert estimate_seconds(plan(capped, cores=2, gpus=0)) == (10, 10)
    whole = load_study(["model-scale"], {"full": True})
    assert estimate_seconds(plan(whole, cores=16, gpus=1))[1] > 3600


def test_devices_of_a_plan_are_those_of_the_records() -> None:
    for item in made("model: resnet18\ndevice: ['cpu:threads=2', cuda]").cases:
        assert parse_device(item.case.device.label) == item.case.device


@pytest.mark.parametrize(
    ("device", "machine", "expected"),
    [
        ("cpu-threads", {"cores": 8}, [1, 2, 4, 8]),
        ("cpu-threads", {"cores": 6}, [1, 2, 4, 6]),
        ("cpu-threads", {"cores": 1}, [1]),
        ("cpu-threads", {"cores": 24, "identical": 8}, [1, 2, 4, 8]),
        ("cpu:threads=2..12", {"cores": 16}, [2, 4, 8, 12]),
    ],
)
def test_a_sweep_of_cores(device: str, machine: dict[str, int], expected: list[int]) -> None:
    found = made(f"model: resnet18\ndevice: '{device}'", **machine)
    assert [item.case.device.threads for item in found.cases] == expected
    noted = any(note.startswith("cpu-threads ends at 8: only so many of 24") for note in found.notes)
    assert noted == ("identical" in machine)


def test_more_cores_than_offered_are_skipped() -> None:
    found = made("model: resnet18\ndevice: 'cpu:threads=1..8'", cores=4)
    assert [item.case.device.threads for item in found.cases] == [1, 2, 4]
    assert found.skips == (Skip(what="cpu:threads=8", reason="only 4 cores offered"),)


def test_a_simulated_sweep_of_cores() -> None:
    found = made("model: resnet18\ndevice: 'sim:cpu:serial=0.1:threads=1..4:noise=0'", cores=1)
    labels = [item.case.device.label for item in found.cases]
    assert labels == [f"sim:cpu:noise=0:serial=0.1:threads={n}" for n in (1, 2, 4)]


def test_several_threads_of_a_tuning_are_several_tunings() -> None:
    text = "model: resnet18\ndevice: cpu\ntuning: {name: sweep, preset: on-device, threads: [1, 2, auto, 2]}"
    found = made(text)
    assert [(item.tuning_name, item.case.tuning.threads) for item in found.cases] == [
        ("sweep 1 thread", 1),
        ("sweep 2 threads", 2),
        ("sweep auto threads", "auto"),
    ]
    assert {item.case.tuning.residency for item in found.cases} == {"device"}
    alone = made(text.replace("[1, 2, auto, 2]", "4")).cases
    assert [(item.tuning_name, item.case.tuning.threads) for item in alone] == [("sweep", 4)]


def test_the_shipped_sweeps_plan() -> None:
    studies = builtin_studies()
    cores = plan(studies["cpu-threads"], cores=4, gpus=1)
    assert {item.case.device.label for item in cores.cases} == {f"cpu:threads={n}" for n in (1, 2, 4)}
    batches = plan(studies["break-even"], cores=4, gpus=1)
    assert {item.case.work.batch for item in batches.cases} == {1 << i for i in range(10)}
