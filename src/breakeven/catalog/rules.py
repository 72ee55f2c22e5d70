"""The rules of advice, as data: what two cases may differ in, and what is said where one of them wins.

Knows nothing about measurements: a rule is decided in `analysis.advise_rules`.
"""

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal

from breakeven.records.case import Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One axis of a choice. The rule holds where the chosen case is faster than the best that differs from it
    in the fields of `differs` alone (`work.batch`, `tuning.precision`, `device` for all but its threads).

    `says`, `denies` and `open` are its three sentences: it holds, it does not, it cannot be told. `flag` and
    `values` are what to measure where there is no such other case.
    """

    rule: str
    task: Literal["train", "infer", "both"]
    differs: tuple[str, ...]
    says: str
    denies: str
    open: str
    flag: str
    values: str

    def of(self, task: Task) -> bool:
        """Whether the rule is about this task."""
        return self.task in ("both", task)


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """All rules, in the order in which advice gives them."""
    text = (files("breakeven.catalog") / "rules.csv").read_text(encoding="utf-8")
    return tuple(
        Rule(**{**row, "differs": tuple(row["differs"].split())})  # type: ignore[arg-type]
        for row in csv.DictReader(text.splitlines())
    )
