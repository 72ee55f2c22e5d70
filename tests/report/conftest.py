"""A study built by hand: three models, two devices, two tunings; one out of memory, one not converged.

The numbers follow a hand-made run on one machine; they are here to be shown, not to be believed.
"""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path
from typing import Any

import pytest

from breakeven import stats
from breakeven.analysis.findings import (
    CaseFinding,
    CeilingFinding,
    ParityFinding,
    QualityFinding,
    RatioFinding,
    ScaleFinding,
    ShareFinding,
    Understanding,
)
from breakeven.records.case import Case, Recipe, Work, applicable, parse_device
from breakeven.records.tuning import preset
from breakeven.stats import Interval

GOLDEN = Path(__file__).parent / "golden"
MODELS = {
    "simple-cnn": (620_362, 3.2e9),
    "resnet18-cifar": (11_173_962, 4.3e11),
    "resnet50": (23_528_522, 1.0e12),
}
# Median step times in milliseconds by (model, device, tuning): what three processes measured.
STEPS = {
    ("simple-cnn", "cpu", "as-written"): (46.1, 46.9, 46.4),
    ("simple-cnn", "cpu", "channels-last"): (15.6, 15.5, 15.8),
    ("simple-cnn", "cuda:0", "as-written"): (25.8, 26.2, 25.9),
    ("simple-cnn", "cuda:0", "channels-last"): (0.871, 0.869, 0.874),
    ("resnet18-cifar", "cpu", "as-written"): (1340.0, 1352.0, 1339.0),
    ("resnet18-cifar", "cpu", "channels-last"): (1152.0, 1210.0, 1149.0),
    ("resnet18-cifar", "cuda:0", "as-written"): (35.9, 41.0, 33.2),
    ("resnet18-cifar", "cuda:0", "channels-last"): (19.41, 19.38, 19.44),
    ("resnet50", "cpu", "as-written"): (2561.0, 2570.0, 2549.0),
    ("resnet50", "cuda:0", "as-written"): (67.6, 68.1, 67.4),
    ("resnet50", "cuda:0", "channels-last"): (41.2,),
}
# Measured ceilings of a matrix product in TFLOP/s, at the precision that `default` comes to on each device.
CEILINGS = {"cpu": ("fp32", 1.9), "cuda:0": ("tf32", 389.0)}
STEPS_AN_EPOCH = 390
EPOCHS = 10


def build_case(model: str, device: str, tuning: str, batch: int = 128) -> Case:
    where = parse_device(device)
    work = Work(
        task="train",
        model=model,
        data="cifar10",
        data_version="1",
        data_hash="0" * 64,
        batch=batch,
        recipe=Recipe(epochs=EPOCHS),
    )
    return applicable(Case(work=work, tuning=preset(tuning, where.kind), device=where))


def case_finding(
    model: str, device: str, tuning: str, steps_ms: tuple[float, ...], *, label: str | None = None
) -> CaseFinding:
    """What the analysis would say of these step times, worked out with the package's own statistics."""
    case = build_case(model, device, tuning)
    parameters, flops = MODELS.get(model, (1_000_000, 1e9))
    seconds = [ms / 1e3 for ms in steps_ms]
    step = stats.case_interval(seconds)
    point = statistics.geometric_mean(seconds)
    totals = [EPOCHS * (STEPS_AN_EPOCH * s + 0.4) + 3.1 for s in seconds]
    one = "one process"
    cuda = device != "cpu"
    rate = (
        None
        if step is None
        else Interval(
            low=128 / step.high, high=128 / step.low, estimate=128 / step.estimate, confidence=0.95, n=step.n
        )
    )
    return CaseFinding(
        case_id=case.case_id,
        case=case,
        tuning_name=tuning,
        device_label=label or device,
        simulated=device.startswith("sim"),
        in_study=True,
        processes=len(seconds),
        outcomes={"ok": len(seconds)},
        parameters=parameters,
        flops_per_step=flops,
        step_s=step,
        step_point_s=point,
        region="train_step",
        epoch_s=stats.case_interval([STEPS_AN_EPOCH * s for s in seconds]),
        epoch_point_s=STEPS_AN_EPOCH * point,
        samples_per_s=rate,
        samples_per_s_point=128 / point,
        tflop_per_s=flops / point / 1e12,
        total_s=stats.prediction_interval(totals),
        total_point_s=statistics.geometric_mean(totals),
        evaluation_s=40 * point / 3,
        startup_s=2.6,
        cold_s=0.5,
        memory_mib={"host_rss_mib": 912.0 + 3 * len(model)} | ({"cuda_peak_mib": 1204.0} if cuda else {}),
        energy_j_per_step=310 * point if cuda else None,
        power_w=310.0 if cuda else None,
        samples_s=tuple(seconds),
        evidence=tuple(f"{case.case_id}/train_step/measure/r{i}/a0" for i in range(len(seconds))),
        reasons=(
            {}
            if cuda
            else {"energy_j_per_step": "RAPL is not readable here", "power_w": "RAPL is not readable here"}
        )
        | ({} if step else {"step_s": one, "epoch_s": one, "total_s": one}),
        **_light(device, flops / point / 1e12),
    )


def _light(device: str, rate: float) -> dict[str, Any]:
    """A simulated device has no ceiling."""
    if device not in CEILINGS:
        return {}
    precision, ceiling = CEILINGS[device]
    return {
        "ceiling_precision": precision,
        "ceiling_tflop_per_s": ceiling,
        "share_of_ceiling": rate / ceiling,
        "ceiling_evidence": (f"f0/ceiling/{device}/matmul_{precision}/2025-01-01T00:00:00+00:00",),
    }


def ceilings() -> tuple[CeilingFinding, ...]:
    told = {"dtype": "float32", "shape": [4096, 4096, 4096], "n": 2}
    unknown = {"theoretical": "a CPU's clock under load is not known"}
    return (
        CeilingFinding(
            device_label="cpu", name="matmul_fp32", value=1.9, unit="tflop_per_s", conditions=told,
            flags=("contended",), reasons=unknown,
        ),
        CeilingFinding(
            device_label="cpu", name="triad", value=148.0, unit="gb_per_s", conditions=told, reasons=unknown
        ),
        CeilingFinding(
            device_label="cuda:0", name="matmul_tf32", value=389.0, unit="tflop_per_s", theoretical=494.7,
            conditions=told,
        ),
        CeilingFinding(
            device_label="cuda:0", name="copy", value=None, unit="gb_per_s", theoretical=4800.0,
            reasons={"value": "oom: out of memory"},
        ),
    )  # fmt: skip


def ratio_finding(base: CaseFinding, candidate: CaseFinding) -> RatioFinding:
    found = stats.paired_ratio(dict(enumerate(base.samples_s)), dict(enumerate(candidate.samples_s)))
    word = stats.verdict(found, margin=0.05, p_adjusted=found.p_value) if found else None
    return RatioFinding(
        base_id=base.case_id,
        candidate_id=candidate.case_id,
        model=base.case.work.model,
        parameters=base.parameters,
        flops_per_step=base.flops_per_step,
        batch=base.case.work.batch,
        base_label=base.device_label,
        candidate_label=candidate.device_label,
        tuning_name=candidate.tuning_name,
        tuning_base=base.tuning_name,
        of="step",
        ratio=found.interval if found else None,
        point=(base.step_point_s or 1) / (candidate.step_point_s or 1),
        verdict=word,
        p_adjusted=found.p_value if found else None,
        mixed=base.tuning_name != candidate.tuning_name,
        flags=candidate.flags,
        evidence=(*base.evidence, *candidate.evidence),
        reasons={} if found else {"ratio": "one process only"},
        ceiling_evidence=base.ceiling_evidence + candidate.ceiling_evidence,
        ceiling=(
            candidate.ceiling_tflop_per_s / base.ceiling_tflop_per_s
            if base.ceiling_tflop_per_s and candidate.ceiling_tflop_per_s
            else None
        ),
    )


def cases_of_the_study() -> dict[tuple[str, str, str], CaseFinding]:
    found = {key: case_finding(*key, steps) for key, steps in STEPS.items()}
    noisy = ("resnet18-cifar", "cuda:0", "as-written")
    found[noisy] = dataclasses.replace(
        found[noisy], flags=("not_converged", "contended"), flag_counts={"not_converged": 3, "contended": 1}
    )
    full = ("simple-cnn", "cuda:0", "channels-last")
    runs = (11.2, 11.3, 11.1)
    found[full] = dataclasses.replace(
        found[full],
        full_points_s=runs,
        full_s=stats.case_interval(runs),
        forecast_error=-0.021,
        forecast_hits=3,
        forecast_judged=3,
        accuracies=(0.781, 0.786, 0.779),
        accuracy=stats.share_interval(7820, 10_000),
    )
    oom = ("resnet50", "cpu", "channels-last")
    blank = case_finding(*oom, (1.0,))
    found[oom] = CaseFinding(
        case_id=blank.case_id,
        case=blank.case,
        tuning_name="channels-last",
        device_label="cpu",
        simulated=False,
        in_study=True,
        processes=0,
        outcomes={"oom": 3},
        failure="needs 18.2 GiB, 15.4 GiB are free",
        parameters=23_528_522,
        flops_per_step=1.0e12,
        evidence=(f"{blank.case_id}/train_step/measure/r0/a0",),
    )
    return found


def build_understanding() -> Understanding:
    """The whole study on real devices."""
    cases = cases_of_the_study()
    ratios = [
        ratio_finding(cases[m, "cpu", t], cases[m, "cuda:0", t])
        for m in MODELS
        for t in ("as-written", "channels-last")
        if (m, "cpu", t) in STEPS
    ]
    ratios.append(
        ratio_finding(cases["resnet50", "cpu", "as-written"], cases["resnet50", "cuda:0", "channels-last"])
    )
    ids = cases["simple-cnn", "cuda:0", "channels-last"].evidence
    return Understanding(
        name="model-scale",
        title="Speed-up against model size",
        tool_version="0.1.0",
        study={
            "model": list(MODELS),
            "device": ["cpu", "cuda"],
            "tuning": ["as-written", "channels-last"],
            "protocol": {"relative_ci": 0.02, "replicates": 3},
        },
        simulated=False,
        sentences=(
            "As written, cuda:0 is 1.8x to 38x as fast as cpu; with both driven well, 18x to 60x.",
            "The ratio grows with model size at every tuning.",
            "Accuracy: cannot tell (sampled; add --full).",
        ),
        cases=tuple(cases.values()),
        ratios=tuple(ratios),
        parity=(
            ParityFinding(
                model="simple-cnn",
                tuning_name="channels-last",
                base_label="cpu",
                candidate_label="cuda:0",
                verdict="cannot tell",
                margin=0.01,
                difference=Interval(low=-0.012, high=0.016, estimate=0.002, confidence=0.9, n=3),
                base_accuracies=(0.78, 0.784, 0.777),
                candidate_accuracies=(0.781, 0.786, 0.779),
                evidence=ids,
            ),
        ),
        scale=(
            ScaleFinding(
                tuning_name="as-written",
                against="parameters",
                verdict="grows",
                base_label="cpu",
                candidate_label="cuda:0",
                batch=128,
                exponent=Interval(low=0.21, high=1.43, estimate=0.82, confidence=0.95, n=3),
                points=tuple(
                    (r.model, float(r.parameters or 0), r.point or 0)
                    for r in ratios
                    if r.tuning_name == "as-written"
                ),
                evidence=ids,
            ),
            ScaleFinding(
                tuning_name="channels-last",
                against="parameters",
                verdict="cannot be told",
                exponent=None,
                base_label="cpu",
                candidate_label="cuda:0",
                batch=128,
                reason="2 models only",
                points=(("simple-cnn", 620362.0, 17.9), ("resnet18-cifar", 11173962.0, 60.3)),
            ),
        ),
        quality=(
            QualityFinding(
                flag="not_converged",
                text="The interval is wider than the 2 % asked for: add processes.",
                cases=1,
                evidence=cases["resnet18-cifar", "cuda:0", "as-written"].evidence,
            ),
            QualityFinding(
                flag="contended", text="Other processes used more than 5 % of the cores.", cases=1
            ),
        ),
        skips=({"what": "cuda-graph on cpu", "reason": "CUDA only"},),
        machines=(
            {
                "platform": {
                    "cpu": "Intel Xeon Platinum 8480C",
                    "cores": 16,
                    "memory_mib": 131072,
                    "gpu": "NVIDIA H200",
                    "driver": "570.86",
                    "torch": "2.11.0",
                },
                "unit": {"gpu_uuid_sha256": "9f2c1a"},
                "nulls": {"governor": "not readable in a container"},
            },
        ),
        hidden_cases=0,
        attempts=39,
        torn=False,
        sources=("breakeven-results/model-scale/results.jsonl",),
        ceilings=ceilings(),
        shares=shares_of(cases),
    )


def shares_of(cases: dict[tuple[str, str, str], CaseFinding]) -> tuple[ShareFinding, ...]:
    """An input-bound step, one that waits for launches, one bound by arithmetic, one that is one piece."""
    labels = dict(
        zip(
            [("simple-cnn", "cuda:0", t) for t in ("as-written", "channels-last")]
            + [(m, "cpu", "as-written") for m in ("simple-cnn", "resnet18-cifar")],
            ("input", "launch", "compute", "cannot tell"),
            strict=True,
        )
    )
    host = {
        "data_wait": 0.86,
        "copy": 0.02,
        "forward": 0.03,
        "backward": 0.06,
        "optimizer": 0.02,
        "other": 0.01,
    }
    resident = {"cut": 0.05, "forward": 0.3, "backward": 0.45, "optimizer": 0.15, "other": 0.05}
    found = []
    for key, label in labels.items():
        case = cases[key]
        shares: dict[str, float] = {} if label == "cannot tell" else host if label == "input" else resident
        times = {name: 26.0 * share for name, share in shares.items() if name != "other"}
        found.append(
            ShareFinding(
                case_id=case.case_id,
                step_s=case.step_point_s or 0.0,
                label=label,  # type: ignore[arg-type]
                why={
                    "input": "86% of a step waits for or makes the batch",
                    "cannot tell": "5 steps take too long: parts need an attempt of 33 s",
                }.get(label, "what it rests on"),
                processes=3 if shares else 0,
                shares=shares,
                exposed_ms=times | ({"loss_read": 0.2, "sync": 0.00001} if shares else {}),
                busy_ms=times,
                launch_share=Interval(low=0.61, high=0.66, estimate=0.64, confidence=0.95, n=3)
                if label == "launch"
                else None,
                launch_share_point=0.64 if label == "launch" else None,
                floor_s=0.0021 if label == "compute" else None,
                floor_memory_share=0.31 if label == "compute" else None,
                flops_per_byte=22.9 if label == "compute" else None,
                evidence=case.evidence,
                reasons=({} if label == "compute" else {"floor_s": "no measured bandwidth"})
                | ({} if shares else {"shares": "5 steps take too long: parts need an attempt of 33 s"}),
            )
        )
    return tuple(found)


def build_simulated() -> Understanding:
    """The variant on simulated devices, whose labels are long."""
    labels = {"cpu": "sim:cpu:step_ms=46:noise=0.02", "cuda:0": "sim:gpu:step_ms=2:noise=0.01"}
    cases = {
        (m, d, "as-written"): case_finding(
            m, labels[d], "as-written", STEPS[m, d, "as-written"], label=labels[d]
        )
        for m in MODELS
        for d in labels
    }
    ratios = tuple(
        ratio_finding(cases[m, "cpu", "as-written"], cases[m, "cuda:0", "as-written"]) for m in MODELS
    )
    return dataclasses.replace(
        build_understanding(),
        simulated=True,
        title="Speed-up against model size, simulated",
        cases=tuple(cases.values()),
        ratios=ratios,
        parity=(),
        scale=(),
        quality=(),
        skips=(),
        sources=("sim/results.jsonl",),
        ceilings=(),
        shares=(),
    )


def renamed(understanding: Understanding, name: str) -> Understanding:
    """The same study with its first model called `name`."""
    first = next(iter(MODELS))

    def case(c: CaseFinding) -> CaseFinding:
        if c.case.work.model != first:
            return c
        return dataclasses.replace(
            c, case=dataclasses.replace(c.case, work=dataclasses.replace(c.case.work, model=name))
        )

    return dataclasses.replace(
        understanding,
        cases=tuple(map(case, understanding.cases)),
        ratios=tuple(
            dataclasses.replace(r, model=name) if r.model == first else r for r in understanding.ratios
        ),
        parity=tuple(dataclasses.replace(p, model=name) for p in understanding.parity),
        sentences=(f"{name} is faster.", *understanding.sentences),
    )


@pytest.fixture(scope="session")
def understanding() -> Understanding:
    return build_understanding()


@pytest.fixture(scope="session")
def simulated() -> Understanding:
    return build_simulated()
