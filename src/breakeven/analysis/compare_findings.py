"""What a comparison of two results, or of the values of one axis, says: one dataclass a kind of finding.

Knows nothing about how it is worked out or shown. As in `findings`, a quantity that cannot be defended is
None and the reason stands in `reasons` under its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from breakeven.analysis.comparable import Difference
from breakeven.analysis.findings import RatioFinding
from breakeven.analysis.inference_findings import Outputs
from breakeven.records.case import Case
from breakeven.stats import Interval, Verdict

Of = Literal["step", "call"]
"""A step of training or a pipelined call of inference; a single call, waited for."""
By = Literal["precision", "device", "runtime", "tuning"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseComparison:
    """One case in both results. Times in seconds; `ratio` is base time / new time, above 1 the new is faster.

    `slower_by` is new / base - 1. `processes` of base and new. `label` tells it from the others. `blocked`
    names what must match and does not: then there is no ratio. `fails`: what the gate says of it, by itself;
    None without a gate. `outputs`: of inference, what those of base and new are worth.
    """

    case_id: str
    case: Case
    tuning_name: str
    device_label: str
    of: Of
    label: str = ""
    processes: tuple[int, int]
    base_s: float | None = None
    new_s: float | None = None
    ratio: Interval | None = None
    point: float | None = None
    slower_by: float | None = None
    verdict: Verdict | None = None
    p_adjusted: float | None = None
    processes_needed: int | None = None
    log_sd: float | None = None
    fails: bool | None = None
    outputs: tuple[Outputs | None, Outputs | None] = (None, None)
    blocked: tuple[Difference, ...] = ()
    flags: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """The gate: `threshold` as a share (0.05). `failed` and `open` are labels of cases; `sees`: the least
    slowdown that it finds with a chance of 80 % at the `processes` a side and the `spread` of this
    comparison, `needs`: processes a side to see one of twice the threshold."""

    threshold: float
    strict: bool
    failed: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    tests: int = 0
    processes: int = 0
    spread: float | None = None
    sees: float | None = None
    needs: int | None = None

    @property
    def passed(self) -> bool:
        return not self.failed and not (self.strict and self.open)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two results, case by case. `across`: they are of different machines, so nothing here is a regression.
    `hidden` counts cases of earlier studies that are not looked at, unless `show_all`.

    `geometric`: the geometric mean of the ratios of `of == "step"`, `geometric_n` cases. `shown`: differences
    that have to stand beside the numbers, each once. `only_base` and `only_new` are labels of cases that one
    side lacks, `broken` those that gave a number before and none now, with the reason. `faults`: lines of
    either that are not believed, in words, `left_out_lines` those that enter no number. `measured`: from when
    to when, of base and new; `in_pieces`: labels of cases with processes begun on different days.
    `confirmed`: the same of the suspects, measured again by fresh processes; then it alone decides.
    """

    base: str
    new: str
    cases: tuple[CaseComparison, ...]
    across: bool = False
    hidden: int = 0
    show_all: bool = False
    simulated: bool = False
    geometric: Interval | None = None
    geometric_point: float | None = None
    geometric_n: int = 0
    shown: tuple[Difference, ...] = ()
    only_base: tuple[str, ...] = ()
    only_new: tuple[str, ...] = ()
    broken: tuple[tuple[str, str], ...] = ()
    faults: tuple[str, ...] = ()
    left_out_lines: int = 0
    measured: tuple[str, str] = ("", "")
    in_pieces: tuple[str, ...] = ()
    gate: Gate | None = None
    confirmed: "Comparison | None" = None
    sentences: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def suspects(self) -> tuple[str, ...]:
        """Case ids that the gate fails for."""
        return tuple(dict.fromkeys(c.case_id for c in self.cases if c.fails))

    @property
    def passed(self) -> bool:
        """Whether the gate lets it through; without one, always.

        Fresh processes clear a suspect, not what was left open.
        """
        if self.gate is None or self.confirmed is None or self.confirmed.gate is None:
            return self.gate is None or self.gate.passed
        return self.confirmed.gate.passed and not (self.gate.strict and self.gate.open)


@dataclass(frozen=True, kw_only=True, slots=True)
class AxisMean:
    """One value of the axis against its base over several cases: the geometric mean of their ratios.

    `bases`: the base's value with the number of `cases` over it, most first; of several there is no mean.
    `decided` of the cases have a verdict other than uncertain. `reasons`: why there is no `ratio`, or why it
    is no verdict.
    """

    value: str
    bases: tuple[tuple[str, int], ...]
    cases: int
    decided: int
    ratio: Interval | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class AxisComparison:
    """The values of one axis in one result, each against the base's: ratios of equal work, all else equal.

    `values`: case id -> its value of the axis, short. `outputs`: case id of inference -> what its outputs are
    worth. `geometric`: the means over cases, of values with two or more. `faults`: lines that are not
    believed or could not be read, in words; `left_out_lines` counts those that enter no number.
    """

    source: str
    by: By
    ratios: tuple[RatioFinding, ...]
    names: tuple[tuple[str, str], ...]
    values: Mapping[str, str] = field(default_factory=dict)
    hidden: int = 0
    outputs: Mapping[str, Outputs] = field(default_factory=dict)
    simulated: bool = False
    geometric: tuple[AxisMean, ...] = ()
    faults: tuple[str, ...] = ()
    left_out_lines: int = 0
    sentences: tuple[str, ...] = ()
