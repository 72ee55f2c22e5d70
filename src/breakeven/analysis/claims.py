"""Published claims against these rows, or against the numbers printed beside them.

Knows nothing about how a test is made: those over rows are in `claim_tests` and `claim_inference`, the
arithmetic in `own_numbers`.
"""

import dataclasses
from collections.abc import Callable, Collection
from typing import TypeVar

from breakeven.analysis import claim_inference, claim_tests, own_numbers
from breakeven.analysis.claim_rows import Decision
from breakeven.analysis.curves import WhatIfFinding
from breakeven.analysis.findings import (
    ClaimFinding,
    ParityFinding,
    RatioFinding,
    ScaleFinding,
    Understanding,
)
from breakeven.analysis.framework_findings import Frameworks
from breakeven.analysis.inference_findings import Inference
from breakeven.catalog.claims import PAPERS, Claim, claims

OWN: dict[str, Callable[[Claim], own_numbers.Decided]] = {
    "own exponent above": own_numbers.exponent_above,
    "own units": own_numbers.units_reached,
    "own order": own_numbers.falls_with_size,
    "own ranks": own_numbers.same_ranks,
    "own peak": own_numbers.within_peaks,
    "own limit": own_numbers.within_limit,
    "own bandwidth": own_numbers.more_bandwidth,
}
TESTS: dict[str, Callable[[Claim, Understanding], Decision]] = {**claim_tests.TESTS, **claim_inference.TESTS}

Paired = TypeVar("Paired", RatioFinding, ScaleFinding, WhatIfFinding, ParityFinding)
"""A finding about two devices."""


def claims_against(found: Understanding) -> tuple[ClaimFinding, ...]:
    """Every claim of the catalog with what these findings say about it."""
    real = _real(found)
    return tuple(_decided(claim, real) for claim in claims())


def _real(found: Understanding) -> Understanding:
    """The findings without those of simulated devices: what was planted confirms nothing."""
    played = {c.case_id for c in found.cases if c.simulated}
    labels = {c.device_label for c in found.cases if c.simulated}
    return dataclasses.replace(
        found,
        cases=tuple(c for c in found.cases if c.case_id not in played),
        shares=tuple(s for s in found.shares if s.case_id not in played),
        ceilings=tuple(c for c in found.ceilings if c.device_label not in labels),
        ratios=_between(found.ratios, labels),
        scale=_between(found.scale, labels),
        what_if=_between(found.what_if, labels),
        parity=_between(found.parity, labels),
        inference=Inference(
            cases=tuple(c for c in found.inference.cases if c.case_id not in played),
            saturation=tuple(s for s in found.inference.saturation if s.device_label not in labels),
        ),
        frameworks=Frameworks(
            pairs=tuple(p for p in found.frameworks.pairs if p.device_label not in labels),
            fusion=tuple(f for f in found.frameworks.fusion if f.device_label not in labels),
        ),
    )


def _between(findings: tuple[Paired, ...], played: Collection[str]) -> tuple[Paired, ...]:
    return tuple(f for f in findings if f.base_label not in played and f.candidate_label not in played)


def _decided(claim: Claim, found: Understanding) -> ClaimFinding:
    finding = ClaimFinding(
        claim=claim.claim,
        paper=PAPERS[claim.paper],
        where=claim.where,
        says=claim.says,
        verdict="cannot be told",
        detail="",
    )
    if claim.test in OWN:
        verdict, detail = OWN[claim.test](claim)
        return dataclasses.replace(finding, verdict=verdict, detail=detail, own=True)
    made = TESTS[claim.test](claim, found)
    return dataclasses.replace(finding, verdict=made.verdict, detail=made.detail, evidence=made.evidence)
