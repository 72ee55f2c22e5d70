"""Everything that the lines of one or more results files say.

Knows nothing about how a finding is shown. Ratios are formed within one file only.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breakeven.analysis import naming
from breakeven.analysis.amdahl import cores_findings
from breakeven.analysis.bandwidth import BandwidthFinding, bandwidths_of, sentences_of_bandwidths
from breakeven.analysis.best import best_pairs
from breakeven.analysis.bounds import bounds_of
from breakeven.analysis.cases import Measured, checks_of, confirmed_cases, measured_cases, proven_attempts
from breakeven.analysis.ceilings import Limits
from breakeven.analysis.claims import claims_against
from breakeven.analysis.crossing import break_even_of
from breakeven.analysis.curves import BreakEvenFinding, CoresFinding, WhatIfFinding
from breakeven.analysis.findings import (
    CaseFinding,
    LadderFinding,
    ParityFinding,
    QualityFinding,
    RatioFinding,
    ScaleFinding,
    ShareFinding,
    Understanding,
)
from breakeven.analysis.framework_findings import Frameworks
from breakeven.analysis.frameworks import frameworks_of
from breakeven.analysis.fusion import fusion_of
from breakeven.analysis.inference import Served, served_cases
from breakeven.analysis.inference_factors import factors_of
from breakeven.analysis.inference_findings import Inference
from breakeven.analysis.inference_frontier import frontier_of
from breakeven.analysis.inference_saturation import later_of, saturation_of
from breakeven.analysis.integrity import believed, left_out_lines
from breakeven.analysis.ladder import ladders_of
from breakeven.analysis.load import loads_of
from breakeven.analysis.machines import core_loop_ns, cores_of, identical_cores, machine
from breakeven.analysis.pairs import baseline, is_cpu, pairs_of
from breakeven.analysis.parity import MARGIN, parity_of
from breakeven.analysis.profile import ProfileFinding, profiles_of, sentences_of_profiles
from breakeven.analysis.quality import quality_of
from breakeven.analysis.ratios import ratios_of
from breakeven.analysis.scale import scale_of
from breakeven.analysis.seeds import over_seeds
from breakeven.analysis.sentences import sentences_of
from breakeven.analysis.types import slow_types
from breakeven.analysis.whatif import what_if_of
from breakeven.records.file import Results
from breakeven.records.ladder import removed_by
from breakeven.records.lines import Attempt, Fingerprint, StudyLine
from breakeven.records.selection import choices


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    """What one file says."""

    study: StudyLine | None
    cases: tuple[CaseFinding, ...]
    ratios: tuple[RatioFinding, ...]
    parity: tuple[ParityFinding, ...]
    scale: tuple[ScaleFinding, ...]
    ladders: tuple[LadderFinding, ...]
    cores: tuple[CoresFinding, ...]
    what_if: tuple[WhatIfFinding, ...]
    break_even: tuple[BreakEvenFinding, ...]
    quality: tuple[QualityFinding, ...]
    sentences: tuple[str, ...]
    hidden: int
    left_out: int
    shares: tuple[ShareFinding, ...]
    inference: Inference
    frameworks: Frameworks
    profiles: tuple[ProfileFinding, ...]
    bandwidths: tuple[BandwidthFinding, ...]


def understand(results: Sequence[Results], *, show_all: bool = False) -> Understanding:
    """The findings of all files, in their order. The study is that of the last file that has one.

    Cases that the latest study of their file no longer has are hidden (and counted), unless `show_all`.
    """
    files = [_file(one, show_all) for one in results]
    studies = [file.study for file in files if file.study is not None]
    last = studies[-1] if studies else None
    cases = tuple(case for file in files for case in file.cases)
    found = Understanding(
        name=", ".join(dict.fromkeys(study.name for study in studies)) or "results",
        title=(naming.text(last.study, "title") or last.name) if last else "results",
        tool_version=last.tool_version if last else "",
        study=last.study if last else {},
        simulated=any(case.simulated for case in cases),
        sentences=_sentences(files, results),
        cases=cases,
        ratios=tuple(ratio for file in files for ratio in file.ratios),
        parity=tuple(
            dataclasses.replace(finding, source=r.path)
            for file, r in zip(files, results, strict=True)
            for finding in file.parity
        ),
        scale=tuple(finding for file in files for finding in file.scale),
        quality=tuple(
            dataclasses.replace(finding, source=r.path)
            for file, r in zip(files, results, strict=True)
            for finding in file.quality
        ),
        skips=tuple(skip for study in studies for skip in study.skips),
        machines=tuple(
            {
                line.fingerprint_id: _machine(line, results) for r in results for line in r.fingerprints
            }.values()
        ),
        hidden_cases=sum(file.hidden for file in files),
        attempts=sum(len(r.attempts) for r in results),
        torn=any(r.torn for r in results),
        sources=tuple(r.path for r in results),
        ladders=tuple(finding for file in files for finding in file.ladders),
        ceilings=tuple(
            dataclasses.replace(finding, source=r.path)
            for r in results
            for finding in Limits.of(r).findings()
        ),
        cores=tuple(finding for file in files for finding in file.cores),
        what_if=tuple(finding for file in files for finding in file.what_if),
        break_even=tuple(finding for file in files for finding in file.break_even),
        shares=tuple(finding for file in files for finding in file.shares),
        inference=_joined([file.inference for file in files]),
        frameworks=Frameworks(
            pairs=tuple(pair for file in files for pair in file.frameworks.pairs),
            fusion=tuple(one for file in files for one in file.frameworks.fusion),
        ),
        profiles=tuple(finding for file in files for finding in file.profiles),
        bandwidths=tuple(finding for file in files for finding in file.bandwidths),
        studies=tuple(file.study.study if file.study else {} for file in files),
        lost_lines=tuple(r.lost for r in results),
        left_out_lines=tuple(file.left_out for file in files),
    )
    return dataclasses.replace(found, claims=claims_against(found))


def _machine(line: Fingerprint, results: Sequence[Results]) -> Mapping[str, Any]:
    """A machine's facts with the speed of one of its cores, where some process measured it."""
    core = core_loop_ns([a for r in results for a in r.attempts], line.fingerprint_id)
    return machine(line) | ({} if core is None else {"core_loop_ns": round(core, 1)})


def _file(results: Results, show_all: bool) -> _File:
    versions = _versions(results)
    results, left_out = believed(results)
    study = results.studies[-1] if results.studies else None
    everything = measured_cases(results)
    shown = over_seeds([m for m in everything if show_all or m.finding.in_study])
    cases = [m.finding for m in shown]
    asked = dict(study.study) if study else {}
    base = baseline(list(dict.fromkeys(m.case.device for m in shown)), naming.text(asked, "baseline"))
    # The full stack less a step is a question within a device.
    pairs = pairs_of([m for m in shown if not removed_by(m.preset)], base) if base else []
    confirmed = confirmed_cases(results)
    planned = study.case_ids if study else tuple(case.case_id for case in cases)
    wants_best = naming.asks_for_best(asked) or bool(confirmed)
    chosen = choices(proven_attempts(results), planned, results.checks) if wants_best else {}
    every = [*pairs, *(best_pairs(chosen, confirmed, base) if base else [])]
    ratios = ratios_of(every)
    # Tunings of inference stand side by side: none adds to another.
    trained = [m for m in shown if m.case.work.task == "train"]
    ladders = ladders_of(trained, confirmed, chosen, planned, wants_best=wants_best)
    parity = parity_of(
        [p for p in pairs if not (p.base.finding.unproven or p.candidate.finding.unproven)],
        naming.number(asked, "accuracy_margin") or MARGIN,
        full=asked.get("full") is True,
    )
    scale = scale_of(ratios, {m.finding.case_id: m.case for m in (*confirmed.values(), *shown)})
    cores = cores_of(results.attempts, [machine(line) for line in results.fingerprints])
    on_cores = cores_findings(
        [m for m in shown if not m.finding.unproven], identical_cores(results.fingerprints)
    )
    break_even = break_even_of(every, ratios)
    missing = _missing(study, everything)
    shares = bounds_of(shown, results)
    served = served_cases(shown, results, shares)
    inference = _inference(served, results)
    frameworks = Frameworks(
        pairs=tuple(frameworks_of(shown, checks_of(results), served, _first(asked, "runtime"))),
        fusion=tuple(fusion_of(shown)),
    )
    profiles = profiles_of(results, [case.case_id for case in cases])
    bandwidths = bandwidths_of(results)
    return _File(
        study=study,
        cases=tuple(cases),
        ratios=tuple(ratios),
        parity=tuple(parity),
        scale=tuple(scale),
        ladders=tuple(ladders),
        cores=tuple(on_cores),
        what_if=tuple(what_if_of(pairs)),
        break_even=tuple(break_even),
        quality=(
            *left_out,
            *slow_types(Limits.of(results).findings(), cases),
            *quality_of(
                cases,
                torn=results.torn,
                missing=missing,
                hosts=_hostless(results, shown),
                versions=versions,
                starved=_starved(shown, shares),
                ratios=ratios,
            ),
        ),
        sentences=(
            *sentences_of(
                cases,
                ratios,
                parity,
                scale,
                cores,
                ladders=ladders,
                on_cores=on_cores,
                break_even=break_even,
                missing=missing,
                skips=study.skips if study else (),
                shares=shares,
                inference=inference,
                frameworks=frameworks,
            ),
            *sentences_of_bandwidths(bandwidths),
            *sentences_of_profiles(profiles, _called(cases)),
        ),
        hidden=len(everything) - len(shown),
        left_out=left_out_lines(results, left_out),
        shares=tuple(shares),
        inference=inference,
        frameworks=frameworks,
        profiles=tuple(profiles),
        bandwidths=tuple(bandwidths),
    )


def _called(cases: Sequence[CaseFinding]) -> dict[str, str]:
    """What a sentence calls each case: its batch too where the study has several."""
    several = len({c.case.work.batch for c in cases}) > 1
    return {
        c.case_id: f"{c.case.work.model} on {c.device_label} ({c.tuning_name}"
        + (f", batch {c.case.work.batch})" if several else ")")
        for c in cases
    }


def _first(study: Mapping[str, Any], key: str) -> str | None:
    """The first value of an axis of the study, None where it has none."""
    value = study.get(key)
    first = value[0] if isinstance(value, list | tuple) and value else value
    return first if isinstance(first, str) else None


def _inference(served: Sequence[Served], results: Results) -> Inference:
    """What the cases of inference say; nothing where there are none."""
    sweeps = saturation_of(served)
    factors, gains = factors_of(served)
    return Inference(
        cases=tuple(one.finding for one in served),
        saturation=tuple(sweeps),
        later=tuple(later_of(sweeps)),
        frontier=tuple(frontier_of(served)),
        factors=tuple(factors),
        gains=tuple(gains),
        loads=tuple(loads_of(results, [one.finding for one in served])),
    )


def _joined(parts: Sequence[Inference]) -> Inference:
    """The findings of all files, in their order."""
    names = [f.name for f in dataclasses.fields(Inference)]
    return Inference(**{name: tuple(x for part in parts for x in getattr(part, name)) for name in names})


def _versions(results: Results) -> list[str]:
    """The versions of this tool that measured something: a study line stands before what its version adds."""
    current, found = None, []
    for line in results.lines:
        if isinstance(line, StudyLine):
            current = line.tool_version
        elif isinstance(line, Attempt) and current is not None:
            found.append(current)
    return list(dict.fromkeys(found))


def _hostless(results: Results, shown: Sequence[Measured]) -> frozenset[str]:
    """Cases with a number from a GPU whose fingerprint names no CPU (contract R20)."""
    named = {line.fingerprint_id for line in results.fingerprints if "cpu" in machine(line)}
    return frozenset(
        m.finding.case_id
        for m in shown
        if m.case.device.kind == "cuda" and {unit for unit, _ in (*m.steps, *m.totals)} - named
    )


def _starved(shown: Sequence[Measured], shares: Sequence[ShareFinding]) -> frozenset[str]:
    """Cases on an accelerator that input binds: no ranking of devices (contract R8)."""
    accelerated = {m.finding.case_id for m in shown if not is_cpu(m.case.device)}
    return frozenset(s.case_id for s in shares if s.label == "input" and s.case_id in accelerated)


def _missing(study: StudyLine | None, measured: Sequence[Measured]) -> int:
    if study is None:
        return 0
    return len(set(study.case_ids) - {m.finding.case_id for m in measured})


def _sentences(files: Sequence[_File], results: Sequence[Results]) -> tuple[str, ...]:
    """The sentences of one file; of several each file's own, below its name."""
    if len(files) == 1:
        return files[0].sentences
    return tuple(
        line for file, one in zip(files, results, strict=True) for line in (f"{one.path}:", *file.sentences)
    )
