"""What lines of inference mean: one frozen dataclass per kind of finding, each with the ids of its evidence.

Knows nothing about how a finding is worked out or shown. As in `findings`, a quantity that cannot be defended
is None, and the reason stands in `reasons` under the field's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from breakeven.records.lines import Purpose, Scenario
from breakeven.records.serving import Answer
from breakeven.stats import Interval
from breakeven.stats.knee import Fit

Reached = Literal["reached", "not swept far enough", "cannot be told"]
Later = Literal["later", "earlier", "at the same batch", "cannot be told"]
Factor = Literal["precision", "runtime", "mixed"]
"""What differs between the two sides of a ratio: the precision alone, the runtime and execution alone, or
both."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantile:
    """A quantile of the time of single calls, in seconds, `p` as a share (0.99).

    `value_s`: over the pooled calls of all processes, a call that occurred. `interval`: Student t on the logs
    of each process's own quantile, where every process made enough calls for one. `reason`: why one is None.
    """

    p: float
    value_s: float | None = None
    interval: Interval | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outputs:
    """What a case's outputs are worth, by its check.

    `agreement`: share of the images with the same top-1 as the runtime's own FP32, with the check's `note`
    (how many images, which weights); `output_error`: relative
    L2 of the logits against it; `reference_error`: the same against FP64 arithmetic of the declared layers,
    on a few images. `accuracy` and `fp32_accuracy`: share of right answers, where the data has labels.
    `images`: of how many images the agreement is, `labelled`: of how many both accuracies are.
    `random`: the weights were drawn, so that agreement is that of an untrained net. `failed`: the check that
    was not passed.
    """

    agreement: float | None = None
    note: str = ""
    output_error: float | None = None
    reference_error: float | None = None
    accuracy: float | None = None
    fp32_accuracy: float | None = None
    images: int | None = None
    labelled: int | None = None
    random: bool = True
    failed: str | None = None
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class InferenceFinding:
    """One case of inference over all its processes.

    `images_per_s`: pipelined, images over time of the same blocks. `quantiles`: of single calls, each
    synchronised, one caller that waits. Neither is made from the other. `cold_s`: the first call;
    `build_s`: compiling, capturing or making the session before it, the cache in `build_state`.
    `j_per_image`: gross energy over the stream. `ranked`: whether it may be called faster than another: it
    has a number, and no check failed.
    """

    case_id: str
    source: str
    images_per_s: Interval | None = None
    images_per_s_point: float | None = None
    quantiles: tuple[Quantile, ...] = ()
    calls: int = 0
    cold_s: Interval | None = None
    cold_point_s: float | None = None
    build_s: float | None = None
    build_state: str | None = None
    j_per_image: Interval | None = None
    j_per_image_point: float | None = None
    floor_s: float | None = None
    share_of_floor: float | None = None
    outputs: Outputs = field(default_factory=Outputs)
    ranked: bool = False
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    def quantile(self, p: float) -> Quantile:
        """The quantile of that share; an empty one where there is none."""
        return next((q for q in self.quantiles if q.p == p), Quantile(p=p, reason="no single calls"))


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchPoint:
    """One batch of a sweep: its rate, as a share of the best one, a single call, and the law's time."""

    batch: int
    case_id: str
    images_per_s: float
    of_best: Interval | None = None
    of_best_point: float = 0.0
    call_s: float | None = None
    low: float | None = None
    high: float | None = None
    law_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """The least batch whose rate reaches `share` of the best one measured, 0.9 for B90.

    `low` and `high`: the least batch that might, and the least that surely does. With an answer other than
    `reached`, `low` is what it is at least.
    """

    share: float
    answer: Reached
    batch: int | None = None
    low: int | None = None
    high: int | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SaturationFinding:
    """Rate and time of a call over the batch: one work but for its batch, one tuning, one device.

    `gain`: rate of the largest batch over that of the one before. `oom_at`: the least batch that did not fit;
    `largest`: the largest that ran. `balanced`: the batch of most rate over latency. The law is
    t = max(floor_s, fixed_s + batch / limit_per_s), t the pipelined time of a call; `law` is its fit through
    the processes' mean, None where it is off by too much (`reasons['law']`), and the intervals, with that of
    the `knee` (a batch), come from one fit a replicate. `processes` counts the replicates of the whole sweep.
    """

    model: str
    data: str
    device_label: str
    tuning_name: str
    precision: str
    points: tuple[BatchPoint, ...]
    reaches: tuple[Reach, ...]
    best_batch: int
    largest: int
    oom_at: int | None = None
    gain: Interval | None = None
    gain_point: float | None = None
    balanced: int | None = None
    law: Fit | None = None
    floor_s: Interval | None = None
    fixed_s: Interval | None = None
    limit_per_s: Interval | None = None
    knee: Interval | None = None
    processes: int = 0
    disturbed: bool = False
    missing: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    source: str = ""
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def knee_at(self) -> float | None:
        """The knee that is shown everywhere: the middle of its interval, without one that of the law."""
        return self.knee.estimate if self.knee else self.law.knee if self.law else None

    @property
    def floor_at(self) -> float | None:
        """The floor in seconds, likewise."""
        return self.floor_s.estimate if self.floor_s else self.law.floor if self.law else None

    def reach(self, share: float) -> Reach:
        """The answer for that share of the best rate."""
        return next(r for r in self.reaches if r.share == share)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaterFinding:
    """Whether the faster of two devices saturates at a larger batch, at one work but for its batch and one
    tuning. `rates`: best rate of the faster over that of the slower."""

    model: str
    tuning_name: str
    precision: str
    faster: str
    slower: str
    faster_batch: Reach
    slower_batch: Reach
    answer: Later
    rates: float
    source: str = ""
    evidence: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierPoint:
    """A case that no other beats in latency, rate and energy at once. Latency is the median of single calls,
    in seconds, `processes` those that the rate is of."""

    case_id: str
    batch: int
    call_s: float
    images_per_s: float
    j_per_image: float | None
    processes: int = 0
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierFinding:
    """The frontier of one work but for its batch on one device, among `candidates` ranked cases.

    It is one of estimates: `reasons['choice']` says why its ends may not be called the best, where processes
    are too few. `most_per_s` is the highest rate of all candidates, which the margin may leave off it.
    `left_out`: cases that no ranking may hold, each with its reason. `axes` names what was compared.
    `disturbed`: something else used the machine in most processes of one of them.
    """

    model: str
    data: str
    device_label: str
    points: tuple[FrontierPoint, ...]
    candidates: int
    axes: tuple[str, ...]
    most_per_s: float = 0.0
    left_out: tuple[tuple[str, str], ...] = ()
    disturbed: bool = False
    source: str = ""
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class FactorFinding:
    """Rate of the candidate over that of the base, equal work on one device, with `kind` all that differs.

    `calls`: the same of the median single call. `pays_back`: calls until the faster ones have paid for the
    longer build.
    """

    kind: Factor
    model: str
    data: str
    batch: int
    device_label: str
    base_id: str
    candidate_id: str
    base_name: str
    candidate_name: str
    base_precision: str
    candidate_precision: str
    ratio: Interval | None = None
    point: float | None = None
    verdict: str | None = None
    calls: Interval | None = None
    pays_back: Interval | None = None
    seed: int = 0
    source: str = ""
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class GainFinding:
    """What the fastest ranked case wins over the loop as people write it, taken apart.

    `whole` = `runtime` x `precision`, through the case between (`between_id`): the winner's runtime at the
    base's precision, or the other way round. The winner is the fastest of `candidates`, chosen and timed by
    the same processes. `times` (case_id -> how many times the base's rate) pairs every ranked case with the
    base, `points` the same without an interval: to be shown, and no test of the family.
    """

    model: str
    data: str
    batch: int
    device_label: str
    base_id: str
    best_id: str
    candidates: int
    whole: FactorFinding
    between_id: str | None = None
    runtime: FactorFinding | None = None
    precision: FactorFinding | None = None
    times: Mapping[str, Interval] = field(default_factory=dict)
    points: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    source: str = ""
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadTrial:
    """One process of a search: the rate asked for, LoadGen's verdict, and what it measured."""

    per_s: float
    purpose: Purpose
    valid: bool
    completed_per_s: float | None = None
    p99_s: float | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadFinding:
    """What MLPerf's LoadGen says of one case in one scenario, over its processes: unverified by MLCommons.

    `valid` of `processes` were VALID on the settings given; `why` collects the reasons of the others, and of
    those that came to no verdict. `per_s` are samples a second; in multi-stream, where LoadGen gives none, it
    is None. `quantiles` of latency in seconds by name (of a query in multi-stream); its intervals, as that of
    `per_s`, are Student t on the logs of processes. `least_s`: the least duration it was given. Of a server:
    `limit_s`, its p99 limit, `answer`, what the search came to (None: it has not ended), `trials`; the
    figures are then those of the processes that confirmed the answer. `empty`: share of the places of calls
    that no sample filled. `disturbed`: something else used the machine in too many processes for a verdict;
    there is no interval then.
    """

    case_id: str
    scenario: Scenario
    minimums: Literal["full", "shortened"]
    least_s: float
    processes: int
    valid: int
    why: tuple[str, ...] = ()
    per_s: Interval | None = None
    per_s_point: float | None = None
    quantiles: Mapping[str, Interval] = field(default_factory=dict)
    quantile_points_s: Mapping[str, float] = field(default_factory=dict)
    empty: float | None = None
    limit_s: float | None = None
    wait_s: float | None = None
    answer: Answer | None = None
    trials: tuple[LoadTrial, ...] = ()
    disturbed: bool = False
    flags: tuple[str, ...] = ()
    standing: str = "not an MLPerf result; not verified by MLCommons"
    source: str = ""
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inference:
    """All that a file's lines of inference say."""

    cases: tuple[InferenceFinding, ...] = ()
    saturation: tuple[SaturationFinding, ...] = ()
    later: tuple[LaterFinding, ...] = ()
    frontier: tuple[FrontierFinding, ...] = ()
    factors: tuple[FactorFinding, ...] = ()
    gains: tuple[GainFinding, ...] = ()
    loads: tuple[LoadFinding, ...] = ()

    def of(self, source: str, case_id: str) -> InferenceFinding | None:
        """The finding of one case of one file."""
        return next((c for c in self.cases if (c.source, c.case_id) == (source, case_id)), None)
