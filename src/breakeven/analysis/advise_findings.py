"""What advice is: a choice under limits, the runner-up, and what would change it, each with its evidence.

Knows nothing about how it is worked out or shown. What the lines do not tell is among `unknown`, with the
command that would find out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from breakeven.records.case import Case, Task
from breakeven.stats import Interval, Verdict

Fit = Literal["meets", "fails", "open"]
Answer = Literal["holds", "does not hold", "open"]
HOURS_A_MONTH = 730.0
"""Hours of a mean month: 8,760 a year (365 days) over 12."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What a device costs to rent, by the hour and by the whole month; either may be None."""

    hour: float | None = None
    month: float | None = None

    @property
    def an_hour(self) -> float:
        """The price of an hour; of a device with a monthly price alone an hour of a month in full use."""
        return self.hour if self.hour is not None else (self.month or 0.0) / HOURS_A_MONTH


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """A user's prices by device label (`cuda:0`), or by kind (`cuda`)."""

    currency: str
    devices: Mapping[str, Price]

    def of(self, label: str) -> Price | None:
        """The price of a device by its label, else by its kind."""
        return self.devices.get(label) or self.devices.get(label.partition(":")[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a choice must keep to. None: no limit. `max_p99_s` in seconds, `min_rate` images a second,
    `max_joules` gross energy an image, `max_accuracy_drop` a share; `epochs` and `accuracy` say what a
    training is for: so many epochs, or a share of right answers."""

    max_p99_s: float | None = None
    min_rate: float | None = None
    max_memory_mib: float | None = None
    max_joules: float | None = None
    max_accuracy_drop: float | None = None
    epochs: int | None = None
    accuracy: float | None = None

    @property
    def said(self) -> tuple[str, ...]:
        """Every limit that is given, with its unit."""
        told: tuple[tuple[float | None, Callable[[float], str]], ...] = (
            (self.max_p99_s, lambda x: f"99 % of single calls within {_exact(x)}"),
            (self.min_rate, lambda x: f"at least {x:,g} images a second"),
            (self.max_memory_mib, lambda x: f"at most {x:,g} MiB of memory"),
            (self.max_joules, lambda x: f"at most {x:g} J an image"),
            (self.max_accuracy_drop, lambda x: f"an accuracy at most {100 * x:g} points lower"),
            (self.epochs, lambda x: f"{x:,} epochs"),
            (self.accuracy, lambda x: f"an accuracy of {100 * x:g} %"),
        )
        return tuple(form(value) for value, form in told if value is not None)


def _exact(seconds: float) -> str:
    """A duration unrounded, in the largest unit of which it is one or more."""
    unit, scale = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e3)) if seconds * s >= 1), ("us", 1e6))
    return f"{seconds * scale:g} {unit}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """One limit at one case: `said` is the quantity in words, `why` what is missing where it is open."""

    limit: str
    fit: Fit
    said: str
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """A case that may be chosen. `seconds`: of an image (inference), else of the run that is asked for;
    `cost` the same in the currency. `limits` says how it keeps to each. `worth`: what its outputs are worth,
    in words, where they are not FP32's. `flags` with the processes that carry each, `of_processes` of how
    many."""

    case_id: str
    case: Case
    label: str
    device_label: str
    seconds: Interval | None
    seconds_point: float
    cost: float | None = None
    joules: float | None = None
    limits: tuple[Kept, ...] = ()
    worth: str = ""
    flags: Mapping[str, int] = field(default_factory=dict)
    of_processes: int = 0
    evidence: tuple[str, ...] = ()

    @property
    def fit(self) -> Fit:
        """`meets` all limits, `fails` one, or one of them is `open`."""
        fits = {kept.fit for kept in self.limits}
        return "fails" if "fails" in fits else "open" if "open" in fits else "meets"


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleFinding:
    """What a rule says of the choice: `ratio` is how many times as fast it is as the best other case that
    differs in the rule's fields alone. `command` would find out what is open."""

    rule: str
    answer: Answer
    text: str
    ratio: Interval | None = None
    verdict: Verdict | None = None
    other_id: str | None = None
    command: str | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class MoneyFinding:
    """Where one device is cheaper than another. Seconds are those of an image or a run on each.

    `hourly`: the cheaper by the hour, at any number, surely where `hourly_verdict` is FASTER; None where an
    hour of one has no price. `hourly_ratio`: how many times as cheap it is, `hourly_interval` with its
    interval; `hourly_why` says why there is no verdict. `monthly`: the
    least number a month from which the dear one costs less, whole machines rented by the month; `against`
    says whether the cheap one is rented by the month or by the hour. `low` and `high` follow from the ends
    of both intervals; None: never.
    """

    dear: str
    cheap: str
    unit: Literal["image", "training run"]
    hourly: str | None
    hourly_ratio: float | None
    hourly_interval: Interval | None = None
    hourly_verdict: Verdict | None = None
    hourly_why: str = ""
    against: Literal["month", "hour"] | None = None
    monthly: int | None = None
    low: int | None = None
    high: int | None = None
    evidence: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """What to run of one work. `objective` is what was minimised; `margin` how many times as good the choice
    is as the runner-up. `changes`: what would change the answer; `unknown`: (what is not known from these
    measurements, the command that would find out). `options` are all cases, best first; `limits` are
    those that were given, in words; `hidden` counts the file's cases that its latest study no longer has.
    `faults`: lines of the file that are not believed or could not be read, in words; `left_out_lines` counts
    those that enter no number."""

    task: Task
    name: str
    objective: str
    unit: str
    currency: str | None
    options: tuple[Option, ...]
    choice: Option | None = None
    runner_up: Option | None = None
    margin: Interval | None = None
    margin_point: float | None = None
    verdict: Verdict | None = None
    processes_needed: int | None = None
    changes: tuple[str, ...] = ()
    rules: tuple[RuleFinding, ...] = ()
    money: tuple[MoneyFinding, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    co2_g: float | None = None
    left_out: tuple[tuple[str, str], ...] = ()
    simulated: bool = False
    source: str = ""
    limits: tuple[str, ...] = ()
    hidden: int = 0
    faults: tuple[str, ...] = ()
    left_out_lines: int = 0
    sentences: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def evidence(self) -> tuple[str, ...]:
        """The lines that the choice and the runner-up rest on."""
        chosen = [o.evidence for o in (self.choice, self.runner_up) if o]
        return tuple(dict.fromkeys(line for lines in chosen for line in lines))
