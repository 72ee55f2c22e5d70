"""Published values: rows as printed, set beside equal work only, and the arithmetic on them."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest

from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.profile import KernelFinding, OperatorFinding, ProfileFinding
from breakeven.analysis.published import difference, published_beside
from breakeven.analysis.published_boards import boards_beside
from breakeven.analysis.published_devices import devices_beside, quotients
from breakeven.analysis.published_names import precision_of
from breakeven.analysis.published_profiles import profiles_beside
from breakeven.analysis.published_ratios import (
    li_achieved,
    li_bound,
    mlperf_training,
    quotient,
    scaling,
    sentences,
)
from breakeven.catalog.cpus import cpu_named
from breakeven.catalog.facts import sources
from breakeven.catalog.gpus import gpu_named
from breakeven.catalog.published import METRICS, PublishedRow, published
from breakeven.catalog.published_operators import published_profiles
from breakeven.records.case import Case, Recipe, Tuning, Work, applicable, parse_device
from breakeven.stats import Interval

from .conftest import a_case as a_training
from .conftest import spread, understood


def a_row(**changes: object) -> PublishedRow:
    """ResNet50 at 224, batch 64, FP32 inference on a T4."""
    row = next(
        row
        for row in published()
        if row.collection == "nvidia-dle-pytorch"
        and (row.processor, row.batch, row.precision, row.metric) == ("Tesla T4", 64, "fp32", "rate")
    )
    return dataclasses.replace(row, **changes)  # type: ignore[arg-type]


def a_case(
    rate: float = 856.0, precision: str = "fp32", *, ran: str | None = None, **work: object
) -> CaseFinding:
    """A case of the same work, measured as so many samples a second by three processes."""
    values = {
        "task": "infer", "model": "resnet50", "input_shape": (3, 224, 224), "data": "photos",
        "data_version": "1", "data_hash": "d", "batch": 64, **work,
    }  # fmt: skip
    recipe = Recipe() if values["task"] == "train" else None
    tuning = Tuning(precision=precision)
    case = applicable(
        Case(work=Work(recipe=recipe, **values), tuning=tuning, device=parse_device("cuda:0"))  # type: ignore[arg-type]
    )
    return CaseFinding(
        case_id="c", case=case, tuning_name="eager", device_label="cuda:0", simulated=False, in_study=True,
        processes=3, outcomes={"ok": 3}, evidence=("c/infer_stream/measure/r0/a0",), ceiling_precision=ran,
        samples_per_s=Interval(low=rate * 0.99, high=rate * 1.01, estimate=rate, confidence=0.95, n=3),
    )  # fmt: skip


def test_every_row_names_its_source_and_what_its_numbers_are() -> None:
    rows = published()
    assert len(rows) >= 578
    assert {row.collection for row in rows} <= set(sources())
    assert all(row.value > 0 and row.place and row.device and row.printed_model for row in rows)
    assert all(row.input_shape is None or len(row.input_shape) == 3 for row in rows)
    units = {"rate": "samples/s", "latency_p90": "ms", "latency_p99": "ms", "step": "ms", "run": "ms"}
    assert all(row.unit == units.get(row.metric, "s") for row in rows if row.metric != "inference")
    assert {row.metric for row in rows} == set(METRICS)


def test_a_processor_is_named_only_where_the_source_tells_which() -> None:
    for name in {row.processor for row in published() if row.processor}:
        known = gpu_named(name) or cpu_named(name)
        assert known is not None, name
    assert not any(row.processor for row in published() if row.device == "RTX 3050")
    assert not any(row.processor for row in published() if "K80" in row.device)  # one chip of the board's two


def test_equal_work_is_set_beside_with_its_quotient() -> None:
    row = a_row(value=428.0)
    found = published_beside([a_case(856.0)], [row])
    assert [one.quotient for one in found.beside] == [2.0]
    assert found.beside[0].evidence
    assert found.refused == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"task": "train"}, "it is about training"),
        ({"task": None}, "does not say what was computed"),
        ({"input_shape": (3, 32, 32)}, "input 3x32x32 there"),
        ({"batch": 32}, "other batches"),
        ({"batch": None}, "does not say the batch"),
        ({"precision": "tf32"}, "precision tf32 there, fp32 here"),
        ({"precision": None, "printed_precision": "FP32?"}, "printed as FP32?"),
        ({"metric": "latency_p99"}, "not a rate"),
        ({"count": 8}, "several devices"),
        ({"data": "imagenet"}, "trained on imagenet"),
    ],
)
def test_other_work_is_refused_with_the_difference(change: dict[str, object], reason: str) -> None:
    found = published_beside([a_case()], [a_row(**change)])
    assert found.beside == ()
    assert [one.rows for one in found.refused] == [1]
    assert reason in found.refused[0].reason


def test_another_model_is_no_candidate_at_all() -> None:
    found = published_beside([a_case()], [a_row(model="vgg16")])
    assert found.beside == found.refused == ()


def test_a_row_that_one_case_matches_is_not_refused_for_another() -> None:
    found = published_beside([a_case(), a_case(batch=32)], [a_row()])
    assert len(found.beside) == 1
    assert found.refused == ()


def test_a_row_that_no_case_matches_has_the_reason_that_leaves_most_equal() -> None:
    found = published_beside([a_case(batch=32), a_case(precision="tf32")], [a_row()])
    assert "precision" in found.refused[0].reason


def test_default_is_what_ran_and_training_in_half_precision_is_autocast() -> None:
    assert precision_of(a_case(precision="default")) is None
    assert precision_of(a_case(precision="default", ran="tf32")) == "tf32"
    assert precision_of(a_case(precision="fp16")) == "fp16"
    assert precision_of(a_case(precision="fp16", task="train")) == "amp"
    assert precision_of(a_case(precision="bf16", task="train")) == "amp-bf16"
    assert difference(a_case(precision="default"), a_row()) is not None


def test_a_simulated_device_is_beside_nothing() -> None:
    simulated = dataclasses.replace(a_case(), simulated=True)
    assert published_beside([simulated], [a_row()]).beside == ()


def test_dawnbench_ratios_come_out_of_the_raw_rows() -> None:
    cpu = "164_b_16vCPUs-gc_pytorch.json"
    assert quotient(cpu, "164_b_1k80-ec2_pytorch.json").ratio == pytest.approx(10.4, abs=0.05)
    assert quotient(cpu, "164_b_1k80-gc_pytorch.json").ratio == pytest.approx(10.7, abs=0.05)
    assert quotient(cpu, "164_b_1p100-dawn_pytorch.json").ratio == pytest.approx(32.2, abs=0.05)
    tensorflow = "164_b_16vCPUs-gc_tensorflow.json"
    assert quotient(tensorflow, "164_b_1p100-dawn_tensorflow.json").ratio == pytest.approx(31.2, abs=0.05)
    with pytest.raises(KeyError, match="0 rows"):
        quotient(cpu, "nothing.json")


def test_mlperf_training_scales_as_its_own_times_imply() -> None:
    kept = {one.count: round(100 * one.efficiency) for one in mlperf_training()}
    assert kept == {8: 100, 64: 63, 512: 41, 768: 38, 3584: 16}


def test_perfect_scaling_is_one() -> None:
    rows = [a_row(count=n, value=100.0 / n) for n in (1, 2, 8)]
    assert [one.efficiency for one in scaling(rows)] == pytest.approx([1.0, 1.0, 1.0])


def test_a_ratio_of_40_does_not_fit_an_rtx_3050_and_an_i9_14900k() -> None:
    """Even with the efficient cores left out and the fast ones at base clock."""
    bound = li_bound()
    assert bound.ratio == pytest.approx(40.6, abs=0.05)
    assert bound.arithmetic == pytest.approx(9.1 / 0.8192, rel=0.01)
    assert bound.bandwidth == pytest.approx(2.5, abs=0.01)
    assert bound.beyond > 3.5


def test_li_et_al_measured_a_cpu_that_fell_behind_not_a_gpu_that_gained() -> None:
    rates = {(one.model, one.device): one.tflop_per_s for one in li_achieved()}
    gpu = gpu_named("GeForce RTX 3050 8 GB")
    assert gpu is not None
    for model in ("resnet18", "resnet50"):
        assert 0.15 < rates[model, "RTX 3050"] / gpu.rates["fp32"] < 0.25
    assert rates["resnet18", "i9-14900K"] == pytest.approx(0.240, rel=0.03)
    assert rates["resnet50", "i9-14900K"] == pytest.approx(0.046, rel=0.03)


def test_the_arithmetic_is_said_in_words() -> None:
    said = " ".join(sentences())
    for figure in ("10.4", "32.2", "63 % on 64", "41 % on 512", "16 % on 3,584", "40.6x", "does not fit"):
        assert figure in said


def test_printed_profiles_are_whole_first_and_nested() -> None:
    four, five = published_profiles()
    assert {four.collection, five.collection} <= set(sources())
    assert (four.place, four.task, five.place, five.task) == ("Table IV", None, "Table V", "infer")
    for one in (four, five):
        assert [row.kind for row in one.rows] == ["step", *["operator"] * 4, "kernel"]
        operators = one.rows[1:5]
        for outer, inner in pairwise(operators):
            assert outer.host_ms >= inner.host_ms and outer.device_ms >= inner.device_ms
        assert one.rows[-1].device_ms < operators[-1].device_ms < one.whole.device_ms
        assert one.rows[-1].host_ms == 0  # a kernel has no host time: the columns are of one run
        assert all(row.here for row in one.rows[1:])
    # Every number as it is printed: a sum of each column holds them.
    assert sum(row.host_ms for row in four.rows) == pytest.approx(3280.248)
    assert sum(row.device_ms for row in four.rows) == pytest.approx(355.468)
    assert sum(row.host_ms for row in five.rows) == pytest.approx(1543.773)
    assert sum(row.device_ms for row in five.rows) == pytest.approx(95.208)


def test_what_cannot_be_in_a_printed_profile_is_found() -> None:
    four, five = published_profiles()
    assert four.outgrown() == () and four.freed() == ()
    assert five.outgrown() == five.rows[1:5]  # every operator has more host time than its step
    assert [row.operator for row in five.freed()] == ["ProfilerStep*"]


def an_operator(name: str, host_s: float, device_s: float | None = None) -> OperatorFinding:
    return OperatorFinding(
        name=name, kind="operator", calls=1, total_host_s=host_s, total_device_s=device_s,
        self_device_s=device_s,
    )  # fmt: skip


def a_profile(own: str, *, on_device: bool) -> ProfileFinding:
    """A step of 100 ms, 80 in convolutions of the library `own`; on a device 20 ms of kernels, 16 in them."""
    return ProfileFinding(
        case_id="c", step_s=0.1, on_device=on_device, evidence=("c/profile",),
        operators=(
            an_operator("aten::convolution", 0.08), an_operator(own, 0.07, 0.016 if on_device else None)
        ),
        kernels=(KernelFinding(name="volta_sgemm_128x64_nn", calls=1, device_s=0.02, share=1.0),)
        if on_device else (),
    )  # fmt: skip


@pytest.mark.parametrize(("own", "on_device"), [("cudnn", True), ("mkldnn", False)])
def test_operators_stand_beside_those_of_their_place(own: str, on_device: bool) -> None:
    name = f"aten::{own}_convolution"
    case = a_case(model="resnet18", input_shape=(3, 32, 32), task="train")
    (one,) = profiles_beside([case], [a_profile(name, on_device=on_device)])
    assert (one.there.place, one.model, one.task, one.on_device) == (
        "Table IV",
        "resnet18",
        "train",
        on_device,
    )
    rows = {beside.row.operator: beside for beside in one.rows}
    whole, library = rows["model_inference"], rows["aten::cudnn_convolution"]
    assert whole.host_s == 0.1 and whole.host_share == whole.host_share_there == 1.0
    assert whole.device_s == (0.02 if on_device else None)
    assert library.name == name and library.host_share == pytest.approx(0.7)
    assert library.host_share_there == pytest.approx(604.944 / 848.07)
    assert library.device_share == (pytest.approx(0.8) if on_device else None)
    assert rows["aten::conv2d"].name is None  # not in this profile: no figure
    assert (rows["volta_sgemm_128x64_nn"].device_s is None) is not on_device


def test_a_profile_stands_beside_its_own_net_and_task_only() -> None:
    found = [a_profile("aten::mkldnn_convolution", on_device=False)]
    for model, task, places in (
        ("resnet18", "infer", ["Table IV"]),  # what was computed is not said
        ("conv6-seed", "infer", ["Table V"]),
        ("conv6", "infer", ["Table V"]),
        ("conv6", "train", []),
        ("resnet50", "infer", []),
    ):
        case = a_case(model=model, input_shape=(3, 32, 32), task=task)
        assert [one.there.place for one in profiles_beside([case], found)] == places
    assert profiles_beside([a_case(model="resnet18")], [ProfileFinding(case_id="c")]) == ()


def test_ratios_of_a_table_are_of_one_column_and_rank_otherwise_in_the_other() -> None:
    found = quotients([row for row in published() if row.collection == "amin-2026"])
    by = {
        metric: [name for name, _ in sorted(each.items(), key=lambda item: -item[1].ratio)]
        for metric, each in found.items()
    }
    assert by["run"] == ["conv6", "vgg16", "resnet18", "cyclegan"]
    assert by["inference"] == ["resnet18", "cyclegan", "vgg16", "conv6"]
    assert found["run"]["conv6"].ratio == pytest.approx(246.2, abs=0.05)
    assert found["inference"]["conv6"].ratio == pytest.approx(31.9, abs=0.05)


def test_a_ratio_here_stands_beside_the_published_one_of_its_task() -> None:
    found = understood(
        *(
            spread(a_training("resnet18", device), ms, name=device)
            for device, ms in (("cpu", 200.0), ("cuda:0", 10.0))
        )
    )
    run, single = devices_beside(found)
    assert [one.metric for one in (run, single)] == ["run", "inference"]
    assert (run.rank, run.of, single.rank) == (3, 4, 1)
    (ratio,) = run.here
    assert ratio.ratio is not None and ratio.ratio.estimate == pytest.approx(20.0, rel=0.02)
    assert single.here == ()  # nothing inferred here
    assert run.repeats == (pytest.approx(10127.83 / 4023.69), pytest.approx(198.42 / 64.17))
    assert single.repeats is None


def test_a_variant_of_a_net_is_named_as_what_it_is() -> None:
    found = understood(spread(a_training("conv6-seed", "cpu"), 20.0, name="c"))
    assert {one.models for one in devices_beside(found)} == {("conv6-seed",)}
    assert all(one.here == () for one in devices_beside(found))


def on_board(*cases: CaseFinding, gpu: str = "Tesla T4") -> Understanding:
    cases = tuple(dataclasses.replace(case, unit="m") for case in cases)
    return dataclasses.replace(understood(), cases=cases, machines=({"fingerprint_id": "m", "gpu": gpu},))


def test_the_best_of_a_board_stands_beside_the_best_published_of_it() -> None:
    rows = [a_row(value=900.0), a_row(value=1200.0, batch=256, precision="int8", framework="TensorRT 7")]
    rows += [
        a_row(value=9e9, processor="A100"),
        a_row(value=9e9, count=8),
        a_row(value=9e9, model="resnet18"),
    ]
    (found,) = boards_beside(on_board(a_case(400.0), a_case(600.0)), rows)
    assert (found.rate, found.row.value, found.quotient) == (600.0, 1200.0, 2.0)
    assert found.unlike == ("batch 256", "precision int8", "program TensorRT 7")


def test_no_board_is_taken_for_another() -> None:
    for understanding in (
        on_board(a_case(), gpu="NVIDIA Unheard-of"),
        on_board(dataclasses.replace(a_case(), simulated=True)),
        on_board(dataclasses.replace(a_case(), unproven="a line is lost")),
    ):
        assert boards_beside(understanding, [a_row()]) == ()
