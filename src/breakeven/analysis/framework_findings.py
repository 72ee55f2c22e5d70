"""What frameworks side by side mean: one frozen dataclass per kind of finding, with the ids of its evidence.

Knows nothing about how a finding is worked out or shown. As in `findings`, a quantity that cannot be defended
is None, and the reason stands in `reasons` under the field's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from breakeven.records.case import Task
from breakeven.stats import Interval, Verdict

Equal = Literal["equal", "unequal", "not checked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Equality:
    """Whether two frameworks did the same work, and what shows it.

    `hashes`: what both sides name with the same hash. `base_errors` and `candidate_errors`: each side
    against FP64 (training: relative `loss` and relative L2 of the `gradient` of a first step; inference:
    `relative_l2` of the logits), as its check found. `numerics`: product -> precision by bit probe, where
    both sides agree. `differs`: settings in which each goes its own way, "layout channels-first /
    channels-last". `why`: what is unequal, or what nobody checked.
    """

    verdict: Equal
    why: str | None = None
    hashes: tuple[str, ...] = ()
    base_errors: Mapping[str, float] = field(default_factory=dict)
    candidate_errors: Mapping[str, float] = field(default_factory=dict)
    numerics: Mapping[str, str] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameworkFinding:
    """One net in one framework against the base framework: equal work, device, tuning and precision.

    `share` is its time as a multiple of the base's, pipelined in inference: below 1 it is faster, as
    `verdict` says where the pair is ranked (equal work, shown by its checks). `calls`: the same of single
    synchronised calls. Both sides have the same batch, so shares of a step and of an image are one number;
    `base_step_s` is the base's time of a step (or call) of `batch` samples. `input`: in training whose input
    it is, each framework's own (`native`) or a data set on the device; None in inference.
    """

    task: Task
    model: str
    data: str
    batch: int
    seed: int
    device_label: str
    tuning: str
    precision: str
    input: Literal["native", "on the device"] | None
    base_id: str
    candidate_id: str
    base_runtime: str
    candidate_runtime: str
    base_name: str
    candidate_name: str
    equality: Equality
    base_step_s: Interval | None = None
    base_point_s: float | None = None
    share: Interval | None = None
    point: float | None = None
    verdict: Verdict | None = None
    p_adjusted: float | None = None
    processes_needed: int | None = None
    calls: Interval | None = None
    source: str = ""
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def ranked(self) -> bool:
        """Whether the work is shown to be equal and the ratio has a verdict."""
        return self.verdict is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class FusionFinding:
    """What an execution wins within one framework: compiled against eager, XLA against a graph.

    `share`: its time as a multiple of that at `base_execution`; None where that was not measured. `also`:
    settings that differ besides, so that the win is theirs as well. `build_s`, `build_state` and `pays_back`
    (steps or calls) as in `findings.StepFinding`.
    """

    task: Task
    model: str
    data: str
    batch: int
    seed: int
    device_label: str
    precision: str
    runtime: str
    candidate_id: str
    candidate_name: str
    tuning: str
    execution: str
    base_id: str | None = None
    base_tuning: str | None = None
    base_execution: str | None = None
    share: Interval | None = None
    point: float | None = None
    verdict: Verdict | None = None
    also: tuple[str, ...] = ()
    build_s: float | None = None
    build_state: str | None = None
    pays_back: Interval | None = None
    source: str = ""
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Frameworks:
    """All that a file says of frameworks; empty where one alone ran."""

    pairs: tuple[FrameworkFinding, ...] = ()
    fusion: tuple[FusionFinding, ...] = ()
