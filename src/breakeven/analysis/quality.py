"""What limits the trust in the numbers: one line of words a kind of trouble, with the cases it touches.

Knows nothing about how a flag was found out.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from breakeven.analysis.findings import CaseFinding, QualityFinding, RatioFinding
from breakeven.analysis.integrity import CUT
from breakeven.analysis.processes import SELECTED
from breakeven.records.lines import Outcome

# Flag -> what it means to a reader. The order is that of the findings: the worst first.
MEANINGS = {
    "simulated": "a simulated device: planted numbers, not a measurement",
    "unchecked": "what ran was not verified: no check of it came to its end on this machine",
    "contended": "something else used the machine meanwhile",
    "throttled": "heat or a power limit lowered the clocks meanwhile",
    "outliers": "a block took over five times the usual step: kept, and its cause is unknown",
    "spilled": "the framework held more memory than the device gave: part of it may have been the host's",
    "not_steady": "times may still have moved: warm-up ended at its limit, or steady steps moved together",
    "few_blocks": "so few steady blocks that nothing tells whether times still moved",
    "uneven": "the mean step of a process is far from its median: its speed changed while it was timed",
    "uneven_core": "one core ran at speeds over 25 % apart in its processes: another host, clock, neighbour",
    "not_interleaved": "the two sides of a ratio were not measured in turn: no verdict (--fresh does)",
    "not_converged": "the interval is wider than the study asks for: more processes would narrow it",
    "short_epoch": "epochs too short to time their change apart: the steps include it",
    "short_block": "blocks so short that waiting at their ends may have lengthened them by over 5 %",
    "coarse_clock": "blocks too short for the clock",
    "loss_not_finite": "the loss did not stay finite: speed holds, learning does not",
    "several_units": "processes ran on several units; only those of one enter an interval",
    "parts_disagree": "split steps took another time than whole ones: their parts stand for nothing",
    "energy_disagrees": "two readings of energy disagree; use neither",
    "above_ceiling": "faster than the measured ceiling: a better kernel, or a ceiling measured too low",
}
EXPECTED: frozenset[Outcome] = frozenset({"oom", "unsupported"})
"""Outcomes that answer the question (it does not fit, it does not exist) instead of failing."""
STOPPED: frozenset[Outcome] = frozenset({"ok", "interrupted"})
"""Outcomes that are no failure beside a number."""


def quality_of(
    cases: Sequence[CaseFinding],
    *,
    torn: bool,
    missing: int,
    hosts: Collection[str | None] = (),
    starved: Collection[str] = (),
    versions: Sequence[str] = (),
    ratios: Sequence[RatioFinding] = (),
) -> list[QualityFinding]:
    """All that should be read beside the numbers. `missing`: cases of the study without any attempt.

    `hosts`: ids of cases on a GPU whose host's CPU is not known. `starved`: of those on an accelerator that
    wait for input. `versions` of this tool that measured. `ratios` whose sides may not stand together.
    """
    found = _flagged(cases, ratios)
    if tried := [case for case in cases if candidate_only(case)]:
        text = "candidates of a search for the best, measured only to choose it: they show no number"
        found.append(_finding("candidate", text, tried))
    failed = [case for case in cases if not case.processes and not candidate_only(case)]
    if failed:
        text = f"no number: {_endings(failed)}"
        found.append(_finding("failed", text, failed))
    # Stopped by its user: it was run again, or stands with the runs that have no end.
    recovered = [case for case in cases if case.processes and set(case.outcomes) - STOPPED]
    if recovered:
        text = f"numbers, but attempts failed too: {_endings(recovered, STOPPED)}"
        found.append(_finding("failed_attempts", text, recovered))
    single = [case for case in cases if case.processes == 1]
    if single:
        text = "measured in one process: no interval, no verdict"
        found.append(_finding("single_process", text, single))
    hostless = [case for case in cases if case.case_id in hosts]
    if hostless:
        text = "the CPU that fed the GPU is not known: it sets the time of a step that waits for launches"
        found.append(_finding("host_unknown", text, hostless))
    waiting = [case for case in cases if case.case_id in starved]
    if waiting:
        text = "bound by input: its ratio says how the device is fed, not how fast it is"
        found.append(_finding("input_bound", text, waiting))
    if len(versions) > 1:
        said = " and ".join(versions)
        text = f"several versions of breakeven measured here ({said}): --fresh measures all with one"
        found.append(QualityFinding(flag="several_versions", text=text, cases=len(cases)))
    if missing:
        verb = "is" if missing == 1 else "are"
        text = f"{missing} of {missing + len(cases)} cases of the study {verb} not measured yet: run it again"
        found.append(QualityFinding(flag="not_run", text=text, cases=missing))
    if torn:
        found.append(QualityFinding(flag="torn", text=CUT, cases=0))
    return found


def failures(cases: Sequence[CaseFinding]) -> list[CaseFinding]:
    """Cases without a number for a reason that is no answer in itself."""
    without = [case for case in cases if not case.processes and not candidate_only(case)]
    return [case for case in without if set(case.outcomes) - EXPECTED]


def candidate_only(case: CaseFinding) -> bool:
    """Whether the case was measured to choose the best alone, and every process of it ended well."""
    return not case.processes and case.reasons.get("step_s") == SELECTED and set(case.outcomes) <= {"ok"}


def _flagged(cases: Sequence[CaseFinding], ratios: Sequence[RatioFinding]) -> list[QualityFinding]:
    apart = {side for r in ratios if r.apart for side in (r.base_id, r.candidate_id)}
    flags = dict.fromkeys([*MEANINGS, *(flag for case in cases for flag in case.flags)])
    found = []
    for flag in flags:
        touched = [
            case
            for case in cases
            if flag in case.flags or (flag == "not_interleaved" and case.case_id in apart)
        ]
        if touched:
            meaning = MEANINGS.get(flag, f"flagged {flag.replace('_', ' ')}")
            found.append(_finding(flag, meaning, touched))
    return found


def _finding(flag: str, text: str, cases: Sequence[CaseFinding]) -> QualityFinding:
    evidence = tuple(line for case in cases for line in case.evidence)
    return QualityFinding(flag=flag, text=text, cases=len(cases), evidence=evidence)


def _endings(cases: Sequence[CaseFinding], but: Collection[str] = ("ok",)) -> str:
    """How often each failing outcome ended an attempt: "2 oom, 1 error"."""
    counts: Counter[str] = Counter()
    for case in cases:
        counts.update({outcome: n for outcome, n in case.outcomes.items() if outcome not in but})
    return ", ".join(f"{n} {outcome.replace('_', ' ')}" for outcome, n in counts.most_common()) or "no steps"
