"""Frameworks side by side: planted shares come back; what is unequal or unchecked is named, not ranked."""

from __future__ import annotations

import dataclasses

import pytest

from breakeven.analysis.findings import ClaimFinding, Understanding
from breakeven.analysis.framework_findings import FrameworkFinding, FusionFinding
from breakeven.records.case import Case, Tuning
from breakeven.records.lines import Attempt, Check
from breakeven.report import build, text
from breakeven.stats import Verdict

from .conftest import HASHES, a_case, a_study, an_attempt, spread, understood
from .framework_lines import held_to_fp64, inferred_in, lines_of, trained_in
from .inference_lines import processes

TORCH, JAX, TF = (trained_in(name) for name in ("torch", "jax", "tensorflow"))
Lines = list[Attempt | Check]


def three(torch_ms: float = 20.0, jax_ms: float = 12.0, tf_ms: float = 30.0) -> Lines:
    """The same net as written in each."""
    each = ((TORCH, torch_ms), (JAX, jax_ms), (TF, tf_ms))
    return [line for case, ms in each for line in lines_of(case, ms, "as-written", sd=0.001)]


def pair(found: Understanding, name: str = "jax") -> FrameworkFinding:
    (one,) = [p for p in found.frameworks.pairs if p.candidate_name == name]
    return one


def test_the_planted_share_comes_back_against_torch() -> None:
    found = understood(three())
    one, other = pair(found), pair(found, "tensorflow")
    assert one.base_name == other.base_name == "torch" and one.input == "native"
    assert one.share is not None and one.share.estimate == pytest.approx(0.6, rel=0.01)
    assert one.share.low < 0.6 < one.share.high and one.share.n == 3
    assert (one.verdict, other.verdict) == (Verdict.FASTER, Verdict.SLOWER)
    assert one.equality.verdict == "equal" and one.equality.hashes == ("weights", "order", "augment")
    assert one.equality.base_errors == {"loss": 2e-8, "gradient": 4e-6}
    assert "layout channels-first / channels-last" in one.equality.differs
    assert f"{JAX.case_id}/check/f0" in one.evidence


def test_the_first_sentence_says_who_takes_how_much_of_whose_time() -> None:
    found = understood(three())
    assert found.sentences[0].startswith("On cpu, resnet18, native input: jax takes 0.600x [0.59")
    assert found.sentences[0].endswith("of torch's time per step of 128 images and per image.")
    assert not any("Name a second device" in line for line in found.sentences)


def test_without_torch_the_study_s_first_runtime_is_the_base() -> None:
    lines = three()[4:]
    study = a_study([JAX, TF], {"runtime": ["tensorflow", "jax"]})
    assert pair(understood(study, lines)).base_name == "tensorflow"
    assert pair(understood(lines), "tensorflow").base_name == "jax"


def test_pairs_of_one_net_on_one_device_are_a_family() -> None:
    alone = pair(understood(three()[:8])).p_adjusted
    both = pair(understood(three())).p_adjusted
    assert alone is not None and both == pytest.approx(2 * alone)


def test_pairing_is_by_replicate() -> None:
    drift = (1.0, 1.5, 0.7)
    lines: Lines = [held_to_fp64(TORCH), held_to_fp64(JAX)]
    for i, x in enumerate(drift):
        lines += [spread(TORCH, 20.0 * x, n=3)[i], spread(JAX, 12.0 * x, n=3)[i]]
    share = pair(understood(lines)).share
    assert share is not None and share.relative_half_width < 1e-6


def test_one_process_is_no_verdict() -> None:
    lines = [*spread(TORCH, 20.0, n=1), *spread(JAX, 12.0, n=1), held_to_fp64(TORCH), held_to_fp64(JAX)]
    found = understood(lines)
    one = pair(found)
    assert one.share is one.verdict is None and one.point == pytest.approx(0.6)
    assert "about 0.6x of torch's time" in found.sentences[0] and "no verdict" in found.sentences[0]


# --- what is not equal


def test_what_was_not_checked_is_shown_and_not_ranked() -> None:
    lines = [line for line in three() if line != held_to_fp64(JAX)]
    one = pair(understood(lines))
    assert one.share is not None and one.verdict is None and one.equality.verdict == "not checked"
    assert one.reasons["verdict"] == "jax was not held to FP64 (no check one_step_parity)"


def test_a_precision_that_nobody_probed_is_not_ranked() -> None:
    blind = dataclasses.replace(held_to_fp64(JAX), checks={"one_step_parity": {"found": {}, "ok": True}})
    one = pair(understood([blind if line == held_to_fp64(JAX) else line for line in three()]))
    assert one.equality.verdict == "not checked" and "not probed" in one.reasons["verdict"]


def test_a_check_on_another_machine_shows_nothing() -> None:
    elsewhere = dataclasses.replace(held_to_fp64(JAX), fingerprint_id="f9")
    lines = [elsewhere if line == held_to_fp64(JAX) else line for line in three()]
    assert pair(understood(lines)).equality.verdict == "not checked"


def test_a_failed_check_leaves_no_ratio_and_is_named() -> None:
    wrong = held_to_fp64(TF, outcome="output_mismatch", reason="gradient 0.4")
    found = understood([line for line in three() if line != held_to_fp64(TF)], wrong)
    one = pair(found, "tensorflow")
    assert one.point is one.share is one.verdict is None and one.equality.verdict == "unequal"
    assert any(
        line == "1 of 2 pairs of frameworks are not ranked; tensorflow on resnet18, cpu: tensorflow: "
        "output_mismatch: gradient 0.4."
        for line in found.sentences
    )


def test_a_check_that_says_no_bars_the_pair_whatever_its_outcome() -> None:
    odd = held_to_fp64(JAX, update={"asked": 1e-4, "found": 0.3, "ok": False})
    one = pair(understood([odd if line == held_to_fp64(JAX) else line for line in three()]))
    assert one.point is None and one.reasons["share"] == "jax: check update: asked 0.0001, found 0.3"


@pytest.mark.parametrize("name", ["weights", "order", "augment"])
def test_other_hashes_are_unequal_work(name: str) -> None:
    lines = lines_of(TORCH, 20.0, "as-written") + lines_of(
        JAX, 12.0, "as-written", hashes=HASHES | {name: "other"}
    )
    one = pair(understood(lines))
    assert one.point is None and name in one.reasons["share"] and name not in one.equality.hashes


def test_default_that_ran_in_another_precision_is_shown_and_not_ranked() -> None:
    """What `default` means differs on a GPU: TF32 in one, FP32 in the other."""
    other = held_to_fp64(JAX, ran="tf32")
    found = understood([other if line == held_to_fp64(JAX) else line for line in three()])
    one = pair(found)
    assert one.share is not None and one.verdict is None and one.equality.verdict == "unequal"
    assert "conv ran as fp32 in torch and as tf32 in jax" in one.reasons["verdict"]
    assert not any("jax takes" in line for line in found.sentences)


def test_a_framework_that_failed_is_named() -> None:
    lines = [*three()[:4], an_attempt(JAX, outcome="oom", reason="no memory")]
    one = pair(understood(lines))
    assert one.point is None and one.reasons["share"] == "jax: oom: no memory"


def test_a_shared_machine_is_no_verdict() -> None:
    lines = lines_of(TORCH, 20.0, "as-written", flags=("contended",)) + lines_of(JAX, 12.0, "as-written")
    found = understood(lines)
    assert pair(found).verdict is None and "no verdict (machine shared)" in found.sentences[0]


def test_planted_devices_have_no_framework() -> None:
    sim = [a_case(device=d, tuning=Tuning(runtime="sim")) for d in ("sim:cpu", "sim:gpu")]
    found = understood([a for case in sim for a in spread(case, 5.0)])
    assert found.frameworks.pairs == found.frameworks.fusion == ()


# --- names, and what stays apart


def test_a_tuning_is_called_by_its_preset_and_the_framework() -> None:
    bf16 = trained_in("jax", precision="bf16")
    found = understood(three(), spread(bf16, 9.0))
    assert [c.tuning_name for c in found.cases] == [
        *("as-written", "as-written jax precision=default", "as-written tensorflow", "as-written jax bf16")
    ]
    assert "execution=" not in text(build(found)) and "runtime=" not in text(build(found))


def test_fused_is_each_framework_s_own_compiler() -> None:
    cases = [trained_in(name, "compile") for name in ("torch", "tensorflow", "jax")]
    found = understood([line for case in cases for line in lines_of(case, 9.0, "fused")])
    assert {(p.base_name, p.candidate_name) for p in found.frameworks.pairs} == {
        ("torch compiled", "tensorflow xla"),
        ("torch compiled", "jax"),
    }
    assert "Fused is torch compiled, tensorflow xla and jax." in " ".join(text(build(found)).split())


def test_native_input_and_data_on_the_device_are_apart() -> None:
    lines = three()
    for name, ms in (("torch", 10.0), ("jax", 9.0)):
        lines += lines_of(trained_in(name, "on-device"), ms, "on-device", sd=0.001)
    found = understood(lines)
    shares = {(p.input, p.candidate_name): p.point for p in found.frameworks.pairs}
    assert shares["native", "jax"] == pytest.approx(0.6, rel=0.01)
    assert shares["on the device", "jax"] == pytest.approx(0.9, rel=0.01)
    said = [line for line in found.sentences if "jax takes" in line]
    assert ["native input" in line for line in said] == [True, False]
    assert "data on the device" in said[1]


def test_several_nets_are_a_range_with_both_ends_named() -> None:
    lines: Lines = []
    for model, jax_ms in (("conv6", 5.0), ("vgg16", 15.0), ("resnet18", 9.0)):
        for name, ms in (("torch", 10.0), ("jax", jax_ms)):
            lines += lines_of(trained_in(name, model=model), ms, "as-written", sd=0.001)
    (said,) = [line for line in understood(lines).sentences if "jax takes" in line]
    assert said.startswith("On cpu, native input: jax takes 0.500x [0.49")
    assert "(conv6) to 1.500x [1.49" in said and said.endswith(
        "(vgg16) of torch's time per step of 128 images and per image."
    )


def test_two_presets_that_are_one_case_there_meet_both() -> None:
    """JAX compiles always: what is eager in torch and what is compiled are set against one case."""
    cases = {"eager": 10.0, "compiled": 6.0}
    lines = [line for t, ms in cases.items() for line in lines_of(inferred_in("torch", t), ms, t)]
    lines += lines_of(inferred_in("jax"), 3.0, "eager")
    found = understood(lines)
    shares = {p.tuning: p.point for p in found.frameworks.pairs}
    assert shares == {"eager": pytest.approx(0.3), "compiled": pytest.approx(0.5)}


def test_single_calls_have_a_share_of_their_own() -> None:
    lines: Lines = [held_to_fp64(inferred_in(name)) for name in ("torch", "jax")]
    lines += processes(inferred_in("torch"), 10.0, name="eager", calls_ms=[20.0] * 100)
    lines += processes(inferred_in("jax"), 5.0, name="eager", calls_ms=[16.0] * 100)
    one = pair(understood(lines))
    assert one.point == pytest.approx(0.5) and one.input is None
    assert one.calls is not None and one.calls.estimate == pytest.approx(0.8)


def test_devices_are_compared_in_one_framework() -> None:
    gpu = trained_in("jax", device="cuda:0")
    found = understood(three(), spread(gpu, 1.0))
    (ratio,) = found.ratios
    assert ratio.base_id == JAX.case_id and ratio.point == pytest.approx(12.0, rel=0.01)
    assert any("as written in jax" in line for line in found.sentences)
    assert understood(three()[:4], spread(gpu, 1.0)).ratios == ()


def test_each_framework_has_its_own_ladder() -> None:
    steps = ("as-written", "on-device", "no-sync")
    lines = [a for r in ("torch", "jax") for t in steps for a in spread(trained_in(r, t), 9.0, name=t)]
    found = understood(lines)
    assert [(one.runtime, [step.name for step in one.steps]) for one in found.ladders] == [
        ("torch", list(steps)),
        ("jax", list(steps)),
    ]
    ids = {step.case_id for step in found.ladders[1].steps}
    assert ids == {trained_in("jax", t).case_id for t in steps}


# --- fusion


def fused(found: Understanding, runtime: str, execution: str) -> FusionFinding:
    (one,) = [f for f in found.frameworks.fusion if (f.runtime, f.execution) == (runtime, execution)]
    return one


def graphs(xla_ms: float = 8.0, build_s: float = 4.0) -> Lines:
    """Inference in torch eager, in TensorFlow as a graph and compiled, in JAX."""
    build_of = {"compile": {"ns": round(build_s * 1e9), "captured": False, "cache_state": "cold"}}
    lines = lines_of(inferred_in("torch"), 12.0, "eager", sd=0.001)
    lines += lines_of(inferred_in("tensorflow"), 10.0, "eager", sd=0.001)
    lines += lines_of(inferred_in("tensorflow", "compiled"), xla_ms, "compiled", sd=0.001, **build_of)
    return lines + lines_of(inferred_in("jax"), 6.0, "eager", sd=0.001, **build_of)


def test_a_compiler_is_set_against_the_graph_of_its_framework() -> None:
    one = fused(understood(graphs()), "tensorflow", "xla")
    assert one.base_execution == "tf.function" and one.also == () and one.build_s == 4.0
    assert one.share is not None and one.share.estimate == pytest.approx(0.8, rel=0.01)
    assert one.verdict is Verdict.FASTER
    assert one.pays_back is not None and one.pays_back.estimate == pytest.approx(4.0 / 2e-3, rel=0.05)


def test_what_is_never_without_its_compiler_has_a_cost_and_no_win() -> None:
    one = fused(understood(graphs()), "jax", "jit")
    assert one.share is one.base_id is None and one.build_s == 4.0 and one.build_state == "cold"
    assert one.reasons["share"] == "not measured with execution eager"


def test_a_win_that_is_not_the_compiler_s_alone_is_named() -> None:
    plain, compiled = trained_in("torch", "on-device"), trained_in("torch", "compile", precision="default")
    lines = lines_of(plain, 10.0, "on-device") + lines_of(compiled, 5.0, "fused", sd=0.001)
    found = understood(lines, three())
    one = fused(found, "torch", "compile:default")
    assert one.base_tuning == "on-device" and set(one.also) == {"layout", "loss_sync"}
    assert not any(line.startswith("Fusion") for line in found.sentences)
    clean = trained_in("torch", "channels-last")
    again = fused(
        understood(lines, three(), lines_of(clean, 8.0, "channels-last")), "torch", "compile:default"
    )
    assert again.base_tuning == "channels-last" and again.also == ()


def test_one_framework_alone_has_no_section() -> None:
    found = understood(spread(TORCH, 20.0), spread(trained_in("torch", "compile"), 9.0, name="compile"))
    assert found.frameworks.pairs == found.frameworks.fusion == ()
    assert not {"frameworks", "equal_work", "fusion"} & {s.key for s in build(found).sections}


# --- the claim


def claim(*lines: object) -> ClaimFinding:
    return next(c for c in understood(*lines).claims if c.claim == "s2-fusion")  # type: ignore[arg-type]


def in_both(share: float, model: str = "resnet18", **changes: object) -> Lines:
    sides: tuple[tuple[Case, float], ...] = (
        (inferred_in("torch", model=model), 10.0),
        (inferred_in("tensorflow", model=model), 10.0 * share),
    )
    return [line for case, ms in sides for line in lines_of(case, ms, "eager", sd=0.001, **changes)]


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.85, "confirmed"), (1.2, "not confirmed"), (0.4, "not confirmed")]
)
def test_the_claim_about_fusion_is_decided_by_equal_work(share: float, verdict: str) -> None:
    found = claim(in_both(share))
    assert found.verdict == verdict and "resnet18 on cpu" in found.detail and found.evidence


def test_one_net_that_is_surely_elsewhere_is_enough_against_the_claim() -> None:
    found = claim(in_both(0.85), in_both(1.5, "vgg16"))
    assert found.verdict == "not confirmed"
    assert found.detail.startswith("1 of 2 pairs within, 1 surely not: resnet18 on cpu 0.8")


def test_the_claim_stays_open_without_checks_on_a_shared_machine_or_near_a_bound() -> None:
    unchecked = [line for line in in_both(0.85) if isinstance(line, Attempt)]
    assert claim(unchecked).verdict == claim(three()).verdict == "cannot be told"
    assert claim(in_both(0.85, flags=("contended",))).verdict == "cannot be told"
    assert claim(in_both(0.8)).verdict == "cannot be told"


def test_the_claim_says_what_the_compiler_wins_there() -> None:
    assert "; there xla takes 0.80" in claim(graphs()).detail


# --- the report


def test_the_tables_stand_in_the_report() -> None:
    found = understood(three(), graphs())
    sections = {section.key: section for section in build(found).sections}
    table = sections["frameworks"].table
    assert table is not None and [c.name for c in table.columns][-4:] == [
        *("a step", "an image", "jax", "tensorflow")
    ]
    (row,) = table.rows
    assert row[-4].text == "20 ms" and row[-3].text == "156 us" and row[-2].text.startswith("0.600x [0.59")
    assert {"frameworks_infer", "equal_work", "fusion"} <= set(sections)
    assert all(len(line) <= 80 for line in text(build(found)).splitlines())
