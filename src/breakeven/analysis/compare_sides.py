"""One side of a comparison: the cases of a results file, what measured them, and what they are called.

Knows nothing about the other side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from breakeven.analysis import naming
from breakeven.analysis.cases import Measured, measured_cases
from breakeven.analysis.comparable import Difference, Side, gate
from breakeven.analysis.inference import served_cases
from breakeven.analysis.inference_findings import Outputs
from breakeven.analysis.integrity import believed, faults_of, left_out_lines
from breakeven.records.file import Results
from breakeven.records.lines import Attempt, StudyLine

SAME_LINES = "both sides hold the same measurements"


@dataclass(frozen=True, kw_only=True, slots=True)
class OneSide:
    """One side: its cases by id, the attempts behind them, and what measured each; `faults` of its lines."""

    path: str
    cases: Mapping[str, Measured]
    attempts: Mapping[str, Attempt]
    results: Results
    versions: Mapping[str, str]
    outputs: Mapping[str, Outputs]
    faults: tuple[str, ...] = ()
    left_out_lines: int = 0
    hidden: int = 0

    def side(self, m: Measured) -> Side:
        """The last of the processes that a case's numbers come from, with its machine."""
        return self._beside(self.used(m)[-1])

    def disagreements(self, m: Measured) -> tuple[Difference, ...]:
        """What has to match and does not among this side's own processes of a case, each once."""
        *others, last = map(self._beside, self.used(m))
        found = {d.field: d for other in others for d in gate(other, last).blocked}
        return tuple(found.values())

    def started(self, m: Measured) -> tuple[str, str] | None:
        """When the first and the last of a case's processes began, in UTC."""
        times = sorted(a.started_utc for a in self.used(m))
        return (times[0], times[-1]) if times else None

    def _beside(self, attempt: Attempt) -> Side:
        lines = [f for f in self.results.fingerprints if f.fingerprint_id == attempt.fingerprint_id]
        version = self.versions.get(attempt.attempt_id)
        return Side(attempt=attempt, machine=lines[-1] if lines else None, tool_version=version)

    def used(self, m: Measured) -> list[Attempt]:
        """The processes behind the case's step, on the unit that its numbers are of."""
        mine = [self.attempts[line] for line in m.finding.evidence if line in self.attempts]
        return [a for a in mine if a.region == m.finding.region]


def shared(a: OneSide, one: Measured, b: OneSide, two: Measured) -> int:
    """Processes that both sides hold: a line of one measurement, not of two."""
    mine, theirs = (
        {(x.fingerprint_id, x.attempt_id, x.started_utc, x.blocks) for x in side.used(m)}
        for side, m in ((a, one), (b, two))
    )
    return len(mine & theirs)


def one_side(results: Results, *, show_all: bool = False) -> OneSide:
    """The cases of the file's latest study; with `show_all` those of earlier ones too."""
    versions, current = dict[str, str](), None
    for line in results.lines:
        if isinstance(line, StudyLine):
            current = line.tool_version
        elif isinstance(line, Attempt) and current is not None:
            versions[line.attempt_id] = current
    kept, said = believed(results)
    every = measured_cases(kept)
    cases = {m.finding.case_id: m for m in every if show_all or m.finding.in_study}
    return OneSide(
        path=results.path,
        cases=cases,
        attempts={a.attempt_id: a for a in kept.attempts},
        results=kept,
        versions=versions,
        outputs=outputs_by_case(list(cases.values()), kept),
        faults=faults_of(results, said),
        left_out_lines=left_out_lines(results, said),
        hidden=len(every) - len(cases),
    )


def outputs_by_case(cases: Sequence[Measured], results: Results) -> dict[str, Outputs]:
    """Case id of inference -> what its outputs are worth."""
    return {one.finding.case_id: one.finding.outputs for one in served_cases(cases, results, [])}


def unranked(outputs: Outputs | None) -> str | None:
    """Why a case's speed may not be ranked: a check of its outputs failed (contract R24)."""
    return f"check {outputs.failed}" if outputs is not None and outputs.failed else None


def names_of(cases: Sequence[Measured]) -> dict[str, str]:
    """Case id -> what tells it from the others: its model, and what is not the same in all."""
    words = words_by_case(cases)
    kept = [i for i in range(7) if i == 0 or len({w[i] for w in words.values()}) > 1]
    return {key: " ".join(mine[i] for i in kept if mine[i]) for key, mine in words.items()}


def words_by_case(cases: Sequence[Measured]) -> dict[str, tuple[str, ...]]:
    """Case id -> its words, the device by its short name among these."""
    short = naming.short_labels(m.finding.device_label for m in cases)
    return {m.finding.case_id: words_of(m, short[m.finding.device_label]) for m in cases}


def words_of(m: Measured, device: str) -> tuple[str, ...]:
    """What names a case, a word an axis. In inference precision is an axis of its own."""
    work, tuning, precision = m.case.work, m.finding.tuning_name, ""
    if work.task == "infer":
        tuning, precision = naming.without_numerics(tuning), m.case.tuning.precision
    return (
        *(work.model, device, tuning, precision),
        *(f"batch {work.batch}", work.data, f"seed {work.seed}"),
    )
