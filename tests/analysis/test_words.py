"""The words: golden sentences, quality lines, machine facts."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.analysis import understand
from breakeven.analysis.findings import Understanding
from breakeven.analysis.phrases import signed, two_lines
from breakeven.analysis.reasons import in_words
from breakeven.analysis.sentences import MOST
from breakeven.records.canonical import to_json
from breakeven.records.case import Tuning
from breakeven.records.lines import Attempt
from breakeven.stats import Interval

from .conftest import (
    a_case,
    a_check,
    a_machine,
    a_study,
    an_attempt,
    file_of,
    full,
    sampled,
    spread,
    understood,
)
from .test_comparisons import law, learned

CPU, GPU, ONE = a_case(), a_case(device="cuda:0"), a_case(device="cpu:threads=1")
HOSTILE = "CUDA error\nin a\x1bkernel " * 30
SAMPLED = "Accuracy: cannot tell (sampled; add --full)."


def jitter(case_of: str, step_ms: float, **changes: object) -> list[Attempt]:
    return spread(a_case(device=case_of), step_ms, sd=0.01, **changes)


def quick() -> list[Attempt]:
    lines = []
    tuned = Tuning(layout="channels-last", residency="device")
    for name, tuning, factor in (("as-written", Tuning(), 1.0), ("tuned", tuned, 0.4)):
        for net, size, gain in (("simple-cnn", 30.0, 1.3), ("resnet18", 80.0, 1.9)):
            for device, level in (("cpu:threads=1", gain), ("cpu", 1.0)):
                case = a_case(net, device, tuning)
                lines += spread(case, size * factor * level, sd=0.01, name=name, parameters=None)
    return lines


def golden() -> dict[str, tuple[Understanding, list[str]]]:
    wide = [sampled(CPU, i, ms) for i, ms in enumerate((20.0, 21.0, 19.0))]
    wide += [sampled(GPU, i, ms) for i, ms in enumerate((19.0, 17.5, 19.5))]
    flat = ("simulated",)
    graph = a_case(device="cuda:0", tuning="cuda-graph")
    return {
        "nothing": (understood(), ["Nothing was measured yet."]),
        "quick": (
            understood(a_machine(2), quick()),
            [
                "Both cores train simple-cnn 1.30x [1.26, 1.33] and resnet18 1.9x [1.8, 2.0] "
                "as fast as one core, as written; the larger model gains more.",
            ],
        ),
        "one model": (
            understood(a_machine(2), spread(ONE, 38.0, sd=0.02), spread(CPU, 20.0, sd=0.02)),
            ["Both cores train resnet18 1.9x [1.7, 2.2] as fast as one core, as written.", SAMPLED],
        ),
        "gpu": (
            understood(jitter("cpu", 76.0), jitter("cuda:0", 20.0)),
            ["cuda:0 trains resnet18 3.8x [3.6, 3.9] as fast as cpu, as written.", SAMPLED],
        ),
        "simulated": (
            understood(jitter("sim:cpu", 76.0, flags=flat), jitter("sim:gpu", 20.0, flags=flat)),
            [
                "SIMULATED device: planted numbers, not a measurement.",
                "sim:gpu trains resnet18 3.80x [3.77, 3.84] as fast as sim:cpu, as written.",
                SAMPLED,
            ],
        ),
        "one device": (
            understood(jitter("cpu", 76.0)),
            ["Only cpu was measured: there are times and no ratio. Name a second device."],
        ),
        "one process": (
            understood(a_machine(2), sampled(ONE, 0, 38.0), sampled(CPU, 0, 20.0)),
            [
                "Both cores train resnet18 about 1.9x as fast as one core, as written; "
                "one process a side, so no verdict.",
                SAMPLED,
            ],
        ),
        "uncertain": (
            understood(wide),
            [
                "cuda:0 against cpu on resnet18, as written: cannot tell yet: 0.83x to 1.39x; "
                "about 21 processes would decide (--set max_replicates=21).",
                SAMPLED,
            ],
        ),
        "same": (
            understood(spread(CPU, 20.0), spread(GPU, 19.9)),
            [
                "cuda:0 trains resnet18 as fast as cpu, as written: 1.01x [1.01, 1.01], the same within 3 %.",
                SAMPLED,
            ],
        ),
        "law": (
            understood(law(0.2, ("simple-cnn", "resnet18", "resnet50"), sd=0.01)),
            [
                "cuda:0 trains 3 models 2.73x [2.66, 2.80] (simple-cnn) to 5.99x [5.94, 6.04] (resnet50) "
                "as fast as cpu, as written; the ratio grows with model size.",
                SAMPLED,
            ],
        ),
        "mixed": (
            understood(
                spread(a_case(tuning="no-sync"), 50.0, name="no-sync"), spread(graph, 1.0, name="cuda-graph")
            ),
            [
                "cuda:0 trains resnet18 50.0x [50.0, 50.0] as fast as cpu, "
                "tuned (cuda-graph against no-sync).",
                SAMPLED,
            ],
        ),
        "accuracy": (
            understood(
                learned({0: 0.9, 1: 0.901, 2: 0.899}, "cpu"), learned({0: 0.85, 1: 0.851, 2: 0.849}, "cuda:0")
            ),
            [
                "cuda:0 trains resnet18 about 1x as fast as cpu, as written, whole runs; "
                "one process a side, so no verdict.",
                "Accuracy differs by more than 1 point on resnet18 "
                "(cuda:0 less cpu: -5.0 [-5.2, -4.8] points).",
            ],
        ),
        "forecast": (
            understood(jitter("cpu", 76.0), full(CPU, train_s=0.8)),
            [
                "Only cpu was measured: there are times and no ratio. Name a second device.",
                "The forecast of a whole run was off by 3% (inside its interval).",
            ],
        ),
        "failed": (
            understood(
                jitter("cpu", 76.0),
                an_attempt(GPU, outcome="error", reason=HOSTILE),
            ),
            [
                "1 of 2 cases gave no number; resnet18 on cuda:0, as written: error: CUDA error in a kernel",
                SAMPLED,
            ],
        ),
        "refused": (
            understood(jitter("cpu", 76.0), jitter("cuda:0", 20.0, hashes={})),
            [
                "No ratio of cuda:0 and cpu on resnet18: unequal work: "
                "the weights hashes differ or are not known on both sides.",
                SAMPLED,
            ],
        ),
    }


GOLDEN = golden()


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_sentences(name: str) -> None:
    found, expected = GOLDEN[name]
    shown = [
        line[: len(want)] for line, want in itertools.zip_longest(found.sentences, expected, fillvalue="")
    ]
    assert shown[: len(expected)] == expected


@pytest.mark.parametrize("name", GOLDEN)
def test_sentences_are_few_and_short(name: str) -> None:
    sentences = GOLDEN[name][0].sentences
    assert 1 <= len(sentences) <= MOST
    for line in sentences:
        assert two_lines(line) and line.isprintable() and line.endswith((".", "..."))


@pytest.mark.parametrize("name", GOLDEN)
def test_findings_are_json_without_nan(name: str) -> None:
    json.dumps(to_json(GOLDEN[name][0]), allow_nan=False)


def test_a_long_or_hostile_name_does_not_spoil_the_terminal() -> None:
    name = "net\x1b[2J" * 40
    for line in understood(spread(a_case(name), 5.0), spread(a_case(name, "cuda:0"), 4.0)).sentences:
        assert two_lines(line) and line.isprintable()


def test_quality_lines() -> None:
    lines = jitter("cpu", 76.0, flags=("contended", "planted_flag"))
    lines += [an_attempt(GPU, outcome="oom", reason="no memory"), sampled(ONE, 0, 5.0)]
    lines += [an_attempt(CPU, 3, outcome="timeout")]
    study = a_study([CPU, GPU, ONE, a_case("resnet50")])
    checks = [a_check(CPU), a_check(ONE)]
    found = understand([file_of(study, checks, lines, torn=True)])
    assert [(q.flag, q.cases, q.text) for q in found.quality] == [
        ("contended", 1, "something else used the machine meanwhile"),
        ("planted_flag", 1, "flagged planted flag"),
        ("failed", 1, "no number: 1 oom"),
        ("failed_attempts", 1, "numbers, but attempts failed too: 1 timeout"),
        ("single_process", 1, "measured in one process: no interval, no verdict"),
        ("not_run", 1, "1 of 4 cases of the study is not measured yet: run it again"),
        ("torn", 0, "the last line of the file was cut off (a crash while writing) and is left out"),
    ]
    assert found.torn and found.attempts == len(lines)


def test_what_was_stopped_is_no_failure() -> None:
    """An interrupted attempt beside a number is none; alone it is why there is no number."""
    lines = [an_attempt(CPU, 3, outcome="interrupted"), *jitter("cpu", 76.0)]
    assert "failed_attempts" not in {q.flag for q in understood(lines).quality}
    alone = understood(an_attempt(CPU, outcome="interrupted"))
    assert "no number: 1 interrupted" in {q.text for q in alone.quality}


def test_a_found_mapping_is_told_in_words() -> None:
    told = in_words(
        "as_eager: asked {'loss': 1e-05, 'worst': 0.9}, found {'loss': 6.229010829e-07, 'worst': 1.7732}"
    )
    assert told == "as_eager: asked loss 1e-05, worst 0.9, found loss 6.2e-07, worst 1.8"
    nested = "found {'conv': {'bits': 23, 'shape': [1, 3]}, 'matmul': {'bits': 10}}"
    assert in_words(nested) == "found conv (bits 23, shape 1 x 3), matmul (bits 10)"
    probed = "found {'conv': {'bits': 23, 'precision': 'fp32', 'shape': [1, 3]}}"
    assert in_words(probed) == "found conv fp32 (23 bits)"
    for text in (
        "CUDA out of memory {see log}",
        "{}",
        "{'a': __import__('os')}",
        "{'a': {'b': {'c': 1}}}",
        "",
    ):
        assert in_words(text) == text or "c 1" in in_words(text)


@given(st.text(max_size=60) | st.text(alphabet="{}'ab: ,1.", max_size=40))
def test_any_reason_has_words(text: str) -> None:
    assert isinstance(in_words(text), str)


def test_an_oom_is_an_answer_and_no_failure() -> None:
    found = understood(jitter("cpu", 76.0), an_attempt(GPU, outcome="oom", reason="no memory"))
    assert not any("gave no number" in line for line in found.sentences)
    assert "No ratio of cuda:0 and cpu on resnet18: cuda:0: oom: no memory." in found.sentences


def test_machine_facts() -> None:
    gpus = [{"name": "NVIDIA H200"}, {"name": "NVIDIA H200"}]
    line = a_machine(16, gpus=gpus, nvidia={"driver": "570.1", "cuda": "12.8"}, libraries={"torch": "2.9.0"})
    assert understood(line, jitter("cpu", 76.0)).machines == (
        {
            "fingerprint_id": "f0",
            "cpu": "Test CPU",
            "cores": 16,
            "gpu": "2 x NVIDIA H200",
            "driver": "570.1",
            "python": "CPython 3.11.9",
            "torch": "2.9.0",
        },
    )


def test_a_machine_without_facts() -> None:
    line = a_machine(2, cpu=None, gpus=None, python=None)
    assert understood(line, jitter("cpu", 76.0)).machines == ({"fingerprint_id": "f0"},)


def test_name_and_title() -> None:
    study = a_study([CPU], {"title": "Two nets"}, skips=({"what": "a", "reason": "b"},))
    found = understood(study, jitter("cpu", 76.0))
    assert (found.name, found.title, found.tool_version) == ("demo", "Two nets", "0.1.0")
    assert found.skips == ({"what": "a", "reason": "b"},)


@pytest.mark.parametrize(
    ("low", "estimate", "high", "text"),
    [
        (0.1, 0.2, 0.3, "0.2 [0.1, 0.3]"),
        (-0.3, -0.14, 0.02, "-0.1 [-0.3, 0.0]"),
        (0.04, 0.5, 0.96, "0.50 [0.04, 0.96]"),
        (-0.96, -0.5, -0.04, "-0.50 [-0.96, -0.04]"),
        (2.0, 2.0, 2.0, "2.00 [2.00, 2.00]"),
        (-40.0, 3.0, 46.0, "3 [-40, 46]"),
    ],
)
def test_signed(low: float, estimate: float, high: float, text: str) -> None:
    assert signed(Interval(low=low, high=high, estimate=estimate, confidence=0.95, n=3)) == text


def test_the_verdict_counts_every_case_without_a_number_as_the_warning_does() -> None:
    """One broke, one did not fit: naive, "1 of 2 cases" above a warning that says "2 of 2"."""
    lines = [
        an_attempt(a_case(device="cpu"), outcome="error"),
        an_attempt(a_case(device="cuda:0"), outcome="oom"),
    ]
    found = understood(lines)
    assert any("2 of 2 cases gave no number" in line for line in found.sentences)
    assert [q.cases for q in found.quality if q.flag == "failed"] == [2]
