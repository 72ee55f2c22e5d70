"""The kinds of line in results.jsonl: study, fingerprint, ceiling, check, attempt, load, profile.

Knows nothing about files or statistics: raw facts only, nothing derived is stored. Units stand in the keys.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from breakeven.records.blocks import Block as Block
from breakeven.records.blocks import Blocks, as_columns
from breakeven.records.case import Case, Device, Task, Tuning, Work
from breakeven.records.profile import Gaps, Kernel, Operator

SCHEMA = "1.1"
"""Version of the line format. Minor versions only add fields; a reader keeps those that it does not know."""

Outcome = Literal[
    "ok", "invalid", "oom", "unsupported", "device_mismatch", "precision_mismatch", "output_mismatch",
    "timeout", "killed", "limit", "interrupted", "error",
]  # fmt: skip
OUTCOMES: tuple[Outcome, ...] = (
    "ok", "invalid", "oom", "unsupported", "device_mismatch", "precision_mismatch", "output_mismatch",
    "timeout", "killed", "limit", "interrupted", "error",
)  # fmt: skip
FINAL: frozenset[str] = frozenset(
    {
        "ok",
        "oom",
        "unsupported",
        "limit",
        "invalid",
        "device_mismatch",
        "precision_mismatch",
        "output_mismatch",
    }
)
"""Outcomes that a resumed run does not try again."""
RETRIED: frozenset[str] = frozenset({"error", "timeout", "killed"})
"""Outcomes that get one more attempt on the next run. `interrupted` runs again always."""

Region = Literal["train_step", "infer_call", "infer_stream", "train_run", "eval", "startup"]
SAMPLED: Mapping[Task, Region] = {"train": "train_step", "infer": "infer_stream"}
"""The region of a sampled attempt, by task."""
Purpose = Literal["measure", "select", "confirm"]
Scenario = Literal["single-stream", "multi-stream", "server", "offline"]
SCENARIOS: tuple[Scenario, ...] = ("single-stream", "multi-stream", "server", "offline")
"""How MLPerf's LoadGen asks: sample after sample, eight by eight, at random times, all at once."""


if TYPE_CHECKING:
    Timed = tuple[Block, ...] | Blocks
else:
    # What a validator makes of a list; a reader that parsed it at once puts `Blocks` there.
    Timed = tuple[Block, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Epoch:
    """One epoch of a full run. `loss`: mean training loss; `accuracy`: share right on the test set."""

    index: int
    train_ns: int
    eval_ns: int | None = None
    steps: int
    samples: int
    loss: float | None = None
    accuracy: float | None = None
    test_loss: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """What one process measured at one case: raw, appended once, never changed.

    `attempt` counts the tries of this (case, replicate) from 0. `parent_id` names the prepared parent it was
    forked from: replicates of a case never share one. `nulls` maps a field name (dotted for a part:
    `memory.device_mib`) to the reason why it is null. `unknown` holds fields of a later minor version.
    `calls_ns`: single calls of inference in order, each alone between two synchronisations (`infer_call`), by
    one caller that waits for each before the next.
    """

    kind: Literal["attempt"] = "attempt"
    schema: str = SCHEMA
    case_id: str
    work_id: str
    tuning_id: str
    work: Work
    tuning: Tuning
    device: Device
    tuning_name: str | None = None
    replicate: int
    attempt: int = 0
    purpose: Purpose = "measure"
    order_index: int
    parent_id: str | None = None
    started_utc: str
    outcome: Outcome
    reason: str | None = None
    region: Region
    flags: tuple[str, ...] = ()
    startup_ns: int | None = None
    cold_ns: int | None = None
    steps_per_epoch: int | None = None
    blocks: Timed = ()
    calls_ns: tuple[int, ...] = ()
    eval_blocks: tuple[Block, ...] = ()
    eval_samples: int | None = None
    compile: Mapping[str, Any] | None = None
    phases: Mapping[str, Any] | None = None
    memory: Mapping[str, float] = field(default_factory=dict)
    energy: Mapping[str, Any] | None = None
    clocks: Mapping[str, Any] | None = None
    contention: Mapping[str, Any] | None = None
    observed: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    parameters: int | None = None
    accuracy: float | None = None
    losses: tuple[float, ...] = ()
    epochs: tuple[Epoch, ...] = ()
    continues: str | None = None
    fingerprint_id: str | None = None
    nulls: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def case(self) -> Case:
        return Case(work=self.work, tuning=self.tuning, device=self.device)

    @property
    def attempt_id(self) -> str:
        """`CASE/REGION/PURPOSE/rREPLICATE/aATTEMPT`: how findings and `continues` name this line."""
        return f"{self.case_id}/{self.region}/{self.purpose}/r{self.replicate}/a{self.attempt}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """Identity, precision and output checks of a case, made once per machine in a process of its own.

    `checks` maps the name of each check to what was asked, what was found and whether they agree.
    """

    kind: Literal["check"] = "check"
    schema: str = SCHEMA
    case_id: str
    fingerprint_id: str
    started_utc: str
    outcome: Outcome
    reason: str | None = None
    checks: Mapping[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyLine:
    """The resolved study that the following lines answer; `case_ids` in the order of its axes."""

    kind: Literal["study"] = "study"
    schema: str = SCHEMA
    tool_version: str
    started_utc: str
    name: str
    study: Mapping[str, Any]
    case_ids: tuple[str, ...]
    skips: tuple[Mapping[str, str], ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
    """The machine: `platform` must match to go on with a file; `unit` (hashed GPU UUID) may change.

    No host name, no user name. What could not be read is null and named in `nulls`.
    """

    kind: Literal["fingerprint"] = "fingerprint"
    schema: str = SCHEMA
    fingerprint_id: str
    platform_id: str
    platform: Mapping[str, Any]
    unit: Mapping[str, Any]
    nulls: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceiling:
    """A measured peak of a device: `value` in `unit` (`tflop_per_s`, `top_per_s`, `gb_per_s`)."""

    kind: Literal["ceiling"] = "ceiling"
    schema: str = SCHEMA
    fingerprint_id: str
    started_utc: str
    name: str
    value: float | None
    unit: str
    conditions: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def device_label(self) -> str:
        return str(self.conditions.get("device"))

    @property
    def contended(self) -> bool:
        """Whether others used the machine meanwhile: then the device can do more."""
        flags = self.conditions.get("flags")
        return isinstance(flags, list | tuple) and "contended" in flags

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Of several lines of one name and device the highest counts: undisturbed before any other."""
        return self.value is not None, not self.contended, self.value or 0.0

    @property
    def ceiling_id(self) -> str:
        """`FINGERPRINT/ceiling/DEVICE/NAME/STARTED`: how findings name this line."""
        return f"{self.fingerprint_id}/ceiling/{self.device_label}/{self.name}/{self.started_utc}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What MLPerf's LoadGen made of one process that answered its queries; LoadGen is the clock, not ours.

    `settings` are those it was given, by its own names; `minimums` whether these are MLPerf's or shortened
    (an MLPerf result it is never: MLCommons has not verified it). `validity` and `invalid_reasons` are its
    verdict on those settings, `latency_ns` (`min`, `mean`, `max`, `p50` to `p99.9`; of a query in
    multi-stream, else of a sample) and `per_s` its figures. `served` is how calls answered: samples asked,
    calls made, places of a call that stayed empty. `search`: bounds of a search for the greatest rate that
    this trial is part of. `logs`: LoadGen's own, by file relative to the results and sha256.
    """

    kind: Literal["load"] = "load"
    schema: str = SCHEMA
    case_id: str
    work_id: str
    tuning_id: str
    work: Work
    tuning: Tuning
    device: Device
    tuning_name: str | None = None
    scenario: Scenario
    replicate: int
    attempt: int = 0
    purpose: Purpose = "measure"
    order_index: int
    parent_id: str | None = None
    started_utc: str
    outcome: Outcome
    reason: str | None = None
    flags: tuple[str, ...] = ()
    settings: Mapping[str, Any]
    minimums: Literal["full", "shortened"]
    search: Mapping[str, float] | None = None
    validity: Literal["VALID", "INVALID"] | None = None
    invalid_reasons: tuple[str, ...] = ()
    latency_ns: Mapping[str, int] = field(default_factory=dict)
    per_s: Mapping[str, float] = field(default_factory=dict)
    served: Mapping[str, Any] = field(default_factory=dict)
    logs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    loadgen: str | None = None
    startup_ns: int | None = None
    compile: Mapping[str, Any] | None = None
    energy: Mapping[str, Any] | None = None
    clocks: Mapping[str, Any] | None = None
    contention: Mapping[str, Any] | None = None
    memory: Mapping[str, float] = field(default_factory=dict)
    observed: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    fingerprint_id: str | None = None
    nulls: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def case(self) -> Case:
        return Case(work=self.work, tuning=self.tuning, device=self.device)

    @property
    def load_id(self) -> str:
        """`CASE/load-SCENARIO/PURPOSE/rREPLICATE/aATTEMPT`: how findings name this line."""
        return f"{self.case_id}/load-{self.scenario}/{self.purpose}/r{self.replicate}/a{self.attempt}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileLine:
    """A few steady steps of one case under the framework's profiler, in a process that timed nothing else.

    `n_steps` steps under it took `profiled_ns`, and `plain_ns` without it right before and right after, each
    synchronised at both edges; `blocks` are those that came first, warm-up included. `left_out`: `rows` of
    operators beyond those kept, and their `self_host_ns` and `self_device_ns`. `host_busy_ns`: that in which
    an operator was under way, where several may be at once. `device_span_ns`: from the first kernel's start
    to the last one's end, of which some kernel ran for `device_busy_ns`. `trace`: `file` relative to the
    results, `sha256`, `events`.
    """

    kind: Literal["profile"] = "profile"
    schema: str = SCHEMA
    case_id: str
    fingerprint_id: str
    parent_id: str | None = None
    started_utc: str
    outcome: Outcome
    reason: str | None = None
    blocks: tuple[Block, ...] = ()
    n_steps: int | None = None
    profiled_ns: int | None = None
    plain_ns: tuple[int, ...] = ()
    operators: tuple[Operator, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    kernels: tuple[Kernel, ...] = ()
    host_busy_ns: int | None = None
    device_span_ns: int | None = None
    device_busy_ns: int | None = None
    gaps: tuple[Gaps, ...] = ()
    trace: Mapping[str, Any] | None = None
    observed: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def profile_id(self) -> str:
        """`CASE/profile/STARTED`: how findings name this line."""
        return f"{self.case_id}/profile/{self.started_utc}"


ADDED: tuple[tuple[str, ...], ...] = (
    ("calls_ns",),
    ("work", "weights"),
    *(("work", "recipe", name) for name in ("cycle", "identity", "pool")),
)
"""Fields of an attempt that schema 1.0 had not: left out of a line where they say nothing, so that an old
line is written again as it was."""

Line = Attempt | Check | StudyLine | Fingerprint | Ceiling | Load | ProfileLine
KINDS: dict[str, type[Any]] = {
    "attempt": Attempt, "check": Check, "study": StudyLine, "fingerprint": Fingerprint, "ceiling": Ceiling,
    "load": Load, "profile": ProfileLine,
}  # fmt: skip


def steady_step_ns(attempt: Attempt) -> float | None:
    """Median nanoseconds a step over the steady blocks of one process; None if it has none above 0.

    Blocks of warm-up and blocks that hold an epoch boundary are left out.
    """
    steady = as_columns(attempt.blocks).steady
    return (steady.median_ns or None) if steady else None


def replace(line: Attempt, **changes: Any) -> Attempt:
    """The same attempt with some fields changed (a new line; the old one stays as it is)."""
    return dataclasses.replace(line, **changes)
