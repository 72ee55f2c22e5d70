"""Published claims against these rows, or against the numbers printed beside them.

Knows nothing about how a test is made: those over rows are in `claim_tests` and `claim_inference`, the
arithmetic in `own_numbers`.
"""

import dataclasses
from collections.abc import Callable

from breakeven.analysis import claim_inference, claim_tests, own_numbers
from breakeven.analysis.claim_rows import Decision
from breakeven.analysis.findings import ClaimFinding, Understanding
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


def claims_against(found: Understanding) -> tuple[ClaimFinding, ...]:
    """Every claim of the catalog with what these findings say about it."""
    return tuple(_decided(claim, found) for claim in claims())


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
