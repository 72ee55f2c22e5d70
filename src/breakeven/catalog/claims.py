"""What published comparisons say, in our own words, each with its place and the test that decides it.

Knows nothing about measurements: the tests are named here and made in `analysis.claims`.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

PAPERS: Mapping[str, str] = {
    "li-2026": "Li et al. 2026: GPU Acceleration in Deep Learning Training",
    "amin-2026": "Amin et al. 2026: Democratizing AI, arXiv 2603.20920",
    "palaniappan-2026": "Palaniappan 2026: DEEP-GAP, arXiv 2604.14552",
}
"""Short name -> the paper. Read as summarised on public pages, tables included; not all of it was at hand."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One checkable sentence. `low` and `high` bound what confirms it: for a published ratio a factor of 1.25
    to either side, since another machine does not meet it to the digit.

    `numbers` holds what a test needs, by name; several of one name in order. They are those printed in the
    place named, but for `units` (CUDA cores of an RTX 3050 8 GB) and `limit` (GB/s of PCIe 3.0 x16, the T4's
    slot).
    """

    claim: str
    paper: str
    where: str
    says: str
    test: str
    model: str | None
    value: float | None
    low: float | None
    high: float | None
    numbers: Mapping[str, tuple[str, ...]]

    def number(self, name: str) -> float:
        """The one number of that name. KeyError where there is none."""
        return float(self.numbers[name][0])

    def several(self, name: str) -> tuple[float, ...]:
        """The numbers of that name. KeyError where there are none."""
        return tuple(float(text) for text in self.numbers[name])


@lru_cache(maxsize=1)
def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the papers."""
    text = (files("breakeven.catalog") / "claims.csv").read_text(encoding="utf-8")
    return tuple(_claim(row) for row in csv.DictReader(text.splitlines()))


def _claim(row: Mapping[str, str]) -> Claim:
    pairs = (item.partition("=") for item in row["numbers"].split())
    bounds = {name: float(row[name]) if row[name] else None for name in ("value", "low", "high")}
    return Claim(
        claim=row["claim"],
        paper=row["paper"],
        where=row["where"],
        says=row["says"],
        test=row["test"],
        model=row["model"] or None,
        numbers={name: tuple(values.split(";")) for name, _, values in pairs},
        **bounds,
    )
