"""What the lines mean: one frozen dataclass per kind of finding, each with the ids of its evidence.

Knows nothing about how a finding is worked out or shown. A quantity that cannot be defended is None, and the
reason stands in `reasons` under the field's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from breakeven.analysis.bandwidth import BandwidthFinding
from breakeven.analysis.curves import BreakEvenFinding, CoresFinding, WhatIfFinding
from breakeven.analysis.framework_findings import Frameworks
from breakeven.analysis.inference_findings import Inference
from breakeven.analysis.profile import ProfileFinding
from breakeven.records.case import Case
from breakeven.stats import Interval, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class UnfinishedRun:
    """A full run without its end: what of its epochs is on file. Seconds of training and evaluation.

    `epochs` of `of` are done; `accuracy` is that after the last of them; `ended` says how it stopped. Where a
    line of the run is not on file both numbers are None, with the reason. Nothing of it enters a total, a
    forecast's error or the case's accuracy.
    """

    replicate: int
    epochs: int | None
    of: int | None
    seconds: float | None
    accuracy: float | None
    ended: str
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseFinding:
    """One case over all its processes. Times in seconds, rates in samples or TFLOP a second, memory in MiB.

    `step_s` is the interval of the case (t on the logs of process medians), `samples_s` the median step of
    each process, `epoch_s` steps and boundary of one epoch without evaluation, `total_s` the forecast of the
    whole recipe with a prediction interval, `full_s` the measured totals of full runs. `full_points_s`
    includes the joined totals of `resumed_runs`, `full_s` does not. `tflop_per_s` counts the nominal FLOPs of
    a training step, energy is gross (idle power included). `flag_counts` counts processes; `source` is the
    file. `ceiling_tflop_per_s` is the device's measured ceiling at the precision that ran (the fastest of
    several), `peak_tflop_per_s` its datasheet's at the board's highest clock; `share_of_ceiling` is the rate
    as a share of the first. `unit` is the machine's fingerprint_id. `unproven`: why its numbers stand in no
    ratio, ranking or choice although no check failed: none is on file, and lines of the file are lost.
    """

    case_id: str
    case: Case
    tuning_name: str
    device_label: str
    simulated: bool
    in_study: bool
    processes: int
    outcomes: Mapping[str, int]
    failure: str | None = None
    parameters: int | None = None
    flops_per_step: float | None = None
    step_s: Interval | None = None
    step_point_s: float | None = None
    epoch_s: Interval | None = None
    epoch_point_s: float | None = None
    samples_per_s: Interval | None = None
    tflop_per_s: float | None = None
    total_s: Interval | None = None
    total_point_s: float | None = None
    full_s: Interval | None = None
    full_points_s: tuple[float, ...] = ()
    forecast_error: float | None = None
    forecast_hits: int | None = None
    forecast_judged: int = 0
    evaluation_s: float | None = None
    startup_s: float | None = None
    cold_s: float | None = None
    accuracy: Interval | None = None
    accuracies: tuple[float, ...] = ()
    accuracy_over_seeds: Interval | None = None
    memory_mib: Mapping[str, float] = field(default_factory=dict)
    energy_j_per_step: float | None = None
    power_w: float | None = None
    idle_w: float | None = None
    net_energy_j_per_step: float | None = None
    flags: tuple[str, ...] = ()
    samples_s: tuple[float, ...] = ()
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    region: str | None = None
    samples_per_s_point: float | None = None
    resumed_runs: int = 0
    flag_counts: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    ceiling_precision: str | None = None
    ceiling_tflop_per_s: float | None = None
    peak_tflop_per_s: float | None = None
    share_of_ceiling: float | None = None
    unit: str | None = None
    ceiling_evidence: tuple[str, ...] = ()
    unfinished: tuple[UnfinishedRun, ...] = ()
    unproven: str | None = None

    @property
    def rate(self) -> float | None:
        """Samples a second: the estimate, of one process its own."""
        return self.samples_per_s.estimate if self.samples_per_s else self.samples_per_s_point


Contrast = Literal["tuning", "best", "best-any", "mixed"]
"""What a ratio sets against what: equal tunings, the best of both with the numerics of the loop as written,
the best of both with any, or a tuned candidate against the base as written."""

MIXED = "mixed: tuned against untuned, not a comparison of hardware"
CONTRASTS: Mapping[Contrast, str] = {
    "best": "best (same numerics)",
    "best-any": "best (any numerics)",
    "mixed": MIXED,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RatioFinding:
    """How many times as fast the candidate is as the named baseline: base time / candidate time, equal work.

    `tuning_base` differs from `tuning_name` where the other device has no preset of that name. `ratio` is
    None when the two may not be compared, or one process only was measured: `reasons['ratio']` says which.
    `mixed`: the tunings differ in more than the device, by name or by precision. `ceiling` is the ratio of
    the measured ceilings, each at the precision that ran: what the hardware alone would give. `contrast` says
    what is set against what; but for equal tunings both sides are fresh `confirm` attempts.
    `unit` is the machine (fingerprint_id) that both sides were measured on. `moving`: steady times of a side
    moved so far that the ratio can be uncertain at most.
    """

    base_id: str
    candidate_id: str
    model: str
    parameters: int | None
    flops_per_step: float | None
    batch: int
    base_label: str
    candidate_label: str
    tuning_name: str
    tuning_base: str
    of: Literal["step", "full"]
    ratio: Interval | None = None
    point: float | None = None
    verdict: Verdict | None = None
    p_adjusted: float | None = None
    processes_needed: int | None = None
    mixed: bool = False
    disturbed: bool = False
    apart: bool = False
    moving: bool = False
    data: str = ""
    seed: int = 0
    flags: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    precision_base: str = "default"
    precision_candidate: str = "default"
    source: str = ""
    ceiling: float | None = None
    ceiling_evidence: tuple[str, ...] = ()
    contrast: Contrast = "tuning"
    unit: str | None = None

    @property
    def setting(self) -> str:
        """The tuning, or what the ratio sets against what: ratios of one setting belong together."""
        return CONTRASTS.get(self.contrast, self.tuning_name)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFinding:
    """One step of a ladder. `step_s` and `point_s` are seconds a training step.

    `win`: the time at the step before over the time here, on the same device; the first has none. `loses`:
    the verdict is SLOWER; such a step stays. `over_best`: the same against `best_before`, the fastest step
    so far, where that is another than the step before: after a step that lost, a win may only undo it.
    `along`: steps below this one that were not measured, so that
    the win is theirs as well. In a list of leave-one-outs `name` is the step left out, the
    time is that without it, and `win` the time without it over the time of the full stack.

    `build_s`: seconds of compiling and capturing before the first step, the compiler's cache in the state
    `build_state`; None where nothing is built. `pays_back`: steps until the win over the step before has paid
    for the longer build; `reasons` says why there is none.
    """

    name: str
    case_id: str | None
    step_s: Interval | None = None
    point_s: float | None = None
    win: RatioFinding | None = None
    over_best: RatioFinding | None = None
    best_before: str | None = None
    loses: bool = False
    along: tuple[str, ...] = ()
    build_s: float | None = None
    build_state: str | None = None
    pays_back: Interval | None = None
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class BestFinding:
    """The fastest tuning of one work on one device, chosen among `candidates`, timed by `confirm` attempts.

    `chosen` are the lines that decided, `evidence` those that the time comes from; `win` is the time as
    written over the best, both confirmed, and `flags` are theirs. Without them there is a name and no time:
    `reasons['step_s']` says why.
    """

    numerics: Literal["same", "any"]
    case_id: str | None
    tuning_name: str | None
    precision: str | None
    candidates: int
    step_s: Interval | None = None
    point_s: float | None = None
    win: RatioFinding | None = None
    flags: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class LadderFinding:
    """One work on one device in one runtime, tuning by tuning in its order; each step adds one change.

    `without`: the full stack less one step at a time. `best` is empty where the study does not ask for it.
    """

    model: str
    batch: int
    data: str
    seed: int
    device_label: str
    steps: tuple[StepFinding, ...]
    without: tuple[StepFinding, ...] = ()
    best: tuple[BestFinding, ...] = ()
    source: str = ""
    runtime: str = "torch"


@dataclass(frozen=True, kw_only=True, slots=True)
class ParityFinding:
    """Whether both devices learn equally well: TOST on the final accuracies of full runs over seeds.

    Accuracies are one value a seed, the mean of its processes: two processes of one seed are not two trials.
    """

    model: str
    tuning_name: str
    base_label: str
    candidate_label: str
    verdict: Literal["equivalent", "different", "cannot tell"]
    margin: float
    difference: Interval | None = None
    base_accuracies: tuple[float, ...] = ()
    candidate_accuracies: tuple[float, ...] = ()
    evidence: tuple[str, ...] = ()
    reason: str | None = None
    source: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleFinding:
    """Exponent of the ratio against model size at one tuning: ratio ~ size ** exponent, over >= 3 models.

    `points` are (model, size, ratio) by size. `tuning_name` is the setting of its ratios (`contrast`).
    `exponent` is as wide as the correction over the `family` laws of the file asks
    (`stats.holm_confidences`): a law is decided where its interval leaves out 0. `p_adjusted` None: it had no
    part in that.
    """

    tuning_name: str
    against: Literal["parameters", "flops"]
    exponent: Interval | None
    verdict: Literal["grows", "shrinks", "cannot be told"]
    points: tuple[tuple[str, float, float], ...] = ()
    evidence: tuple[str, ...] = ()
    reason: str | None = None
    base_label: str = ""
    candidate_label: str = ""
    batch: int | None = None
    contrast: Contrast = "tuning"
    source: str = ""
    data: str = ""
    p_adjusted: float | None = None
    family: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityFinding:
    """Something that limits how far the numbers can be trusted. `cases` counts the cases it touches."""

    flag: str
    text: str
    cases: int
    evidence: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CeilingFinding:
    """What a device does at best: `value` in `unit` as measured, `theoretical` by its datasheet.

    `conditions` are those of the line: dtype, shape, threads, the number `n` of processes. `machine` is
    its fingerprint_id.
    """

    device_label: str
    name: str
    value: float | None
    unit: str
    theoretical: float | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    machine: str | None = None


Label = Literal["input", "copy", "launch", "memory", "compute", "cannot tell"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareFinding:
    """Where the time of a case's step goes, and what bounds it.

    `shares` (part -> share of the step, mean over `processes`) add up to 1; empty where
    `reasons['shares']` says why; `ranges` are the least and the largest share of a process. `exposed_ms`
    is the host's time in each part, `busy_ms` each part alone, waited for: medians over processes.
    `enqueue_share`: for how much of the work's time the host enqueues it. `launch_share` is 1 - captured
    / eager, with the case that was captured. `floor_s` sums max(FLOPs / peak, bytes / bandwidth) over the
    layers, `floor_memory_share` of it is bound by traffic; `flops_per_byte` is that of the step. `why`
    says what the label rests on, or why there is none.
    """

    case_id: str
    step_s: float
    label: Label
    why: str = ""
    processes: int = 0
    shares: Mapping[str, float] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    exposed_ms: Mapping[str, float] = field(default_factory=dict)
    busy_ms: Mapping[str, float] = field(default_factory=dict)
    enqueue_share: float | None = None
    launch_share: Interval | None = None
    launch_share_point: float | None = None
    captured_id: str | None = None
    floor_s: float | None = None
    floor_memory_share: float | None = None
    flops_per_byte: float | None = None
    bandwidth_gb_per_s: float | None = None
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


ClaimVerdict = Literal["confirmed", "not confirmed", "cannot be told", "wrong by arithmetic"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimFinding:
    """One sentence of a published comparison against these rows, or against that paper's own numbers.

    `detail` is what was measured, what is missing, or the arithmetic. `own`: decided from the paper's numbers
    alone, whatever the rows say.
    """

    claim: str
    paper: str
    where: str
    says: str
    verdict: ClaimVerdict
    detail: str
    own: bool = False
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Understanding:
    """Everything the lines of one or more files say. `sentences` is the verdict a newcomer reads first.

    `study` is that of the last file that has one; `studies` has one a file, as `sources`, empty where a file
    has none. `lost_lines`, one a file, counts the lines that could not be read; `left_out_lines` these and
    the lines that are not believed.
    """

    name: str
    title: str
    tool_version: str
    study: Mapping[str, Any]
    simulated: bool
    sentences: tuple[str, ...]
    cases: tuple[CaseFinding, ...]
    ratios: tuple[RatioFinding, ...]
    parity: tuple[ParityFinding, ...]
    scale: tuple[ScaleFinding, ...]
    quality: tuple[QualityFinding, ...]
    skips: tuple[Mapping[str, str], ...]
    machines: tuple[Mapping[str, Any], ...]
    hidden_cases: int
    attempts: int
    torn: bool
    sources: tuple[str, ...]
    ceilings: tuple[CeilingFinding, ...] = ()
    ladders: tuple[LadderFinding, ...] = ()
    cores: tuple[CoresFinding, ...] = ()
    what_if: tuple[WhatIfFinding, ...] = ()
    break_even: tuple[BreakEvenFinding, ...] = ()
    claims: tuple[ClaimFinding, ...] = ()
    shares: tuple[ShareFinding, ...] = ()
    inference: Inference = field(default_factory=Inference)
    frameworks: Frameworks = field(default_factory=Frameworks)
    profiles: tuple[ProfileFinding, ...] = ()
    bandwidths: tuple[BandwidthFinding, ...] = ()
    studies: tuple[Mapping[str, Any], ...] = ()
    lost_lines: tuple[int, ...] = ()
    left_out_lines: tuple[int, ...] = ()
