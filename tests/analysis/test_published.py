"""Published values: rows as printed, set beside equal work only, and the arithmetic on them."""

from __future__ import annotations

import dataclasses

import pytest

from breakeven.analysis.findings import CaseFinding
from breakeven.analysis.published import difference, precision_of, published_beside
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
from breakeven.records.case import Case, Recipe, Tuning, Work, applicable, parse_device
from breakeven.stats import Interval


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
