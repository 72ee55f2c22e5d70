"""breakeven as a library: `import breakeven.api as be`.

Knows nothing about terminals: it returns values and raises `breakeven.errors.UserError`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakeven.analysis import understand
from breakeven.analysis.findings import Understanding
from breakeven.analysis.published import PublishedFindings
from breakeven.analysis.published import published_beside as _beside
from breakeven.records.file import Results, read
from breakeven.runner.plan import Plan, runtimes_of
from breakeven.runner.plan import plan as _plan
from breakeven.runner.run import Summary
from breakeven.runner.run import run as _run
from breakeven.runner.session import Event
from breakeven.runner.study import Study, load_study
from breakeven.runner.survey import Survey, fingerprint_of, survey
from breakeven.runner.tasks import settled

if TYPE_CHECKING:
    from breakeven.analysis.trend import Trend
    from breakeven.report import Shown

__all__ = [
    "Event",
    "Plan",
    "Results",
    "Study",
    "Summary",
    "Survey",
    "Understanding",
    "fetch_data",
    "load_study",
    "look",
    "measure",
    "plan",
    "published_beside",
    "read",
    "results_folder",
    "show",
    "trend",
    "understand",
]


def look(study: Study) -> Survey:
    """What is on this machine of what the study needs: its runtimes, cores and GPUs."""
    return survey(runtimes_of(study))


def plan(study: Study, found: Survey) -> Plan:
    """The study's cases that can run here, and the others with the reason why not."""
    from breakeven import runtimes
    from breakeven.workloads.data import missing

    def cannot(case: Any) -> str | None:
        name = case.tuning.runtime
        answer = found.runtimes.get(name)
        if answer is not None and answer.reason:
            return answer.reason
        return runtimes.load(name).supports(case)

    return _plan(
        settled(study),
        cores=found.cores,
        gpus=found.gpus,
        identical=found.identical,
        supports=cannot,
        data_available=missing,
    )


def fetch_data(study: Study) -> tuple[str, ...]:
    """Downloads the study's data sets that are not here; their names. Raises UserError where it fails."""
    from breakeven.workloads.data import load, missing

    names = tuple(name for name in study.data if missing(name) is not None)
    for name in names:
        load(name, "train", download=True)
    return names


def results_folder(study: Study, out: Path | None) -> Path:
    """Where the study's results go: `out`, else breakeven-results/NAME under the working folder."""
    return out if out is not None else Path("breakeven-results") / study.name


def measure(
    study: Study,
    folder: Path,
    *,
    fresh: bool = False,
    on_event: Callable[[Event], None] = lambda event: None,
    hurry: Callable[[], str | None] = lambda: None,
) -> Summary:
    """Runs the study into `folder` (goes on where its results end). Raises UserError."""
    found, study = look(study), settled(study)
    return _run(
        study, plan(study, found), folder, fingerprint_of(found), on_event=on_event, hurry=hurry, fresh=fresh
    )


def published_beside(understanding: Understanding) -> PublishedFindings:
    """Published values of the models in these results: of equal work, or refused with a reason."""
    return _beside(understanding.cases)


def show(understanding: Understanding, *, height: int = 640) -> "Shown":
    """The report as a notebook shows it, `height` pixels tall; where nothing draws, its summary as text."""
    from breakeven.report import Shown

    return Shown(understanding=understanding, height=height)


def trend(metric: str, segment: str = "datacenter", *, frontier: bool = False) -> "Trend":
    """How a metric of GPUs grew: `memory`, `bandwidth`, `fp32`, `fp16` or `power`. Raises UserError."""
    # Imported here: most uses of the library need no curve.
    from breakeven.analysis.trend import segment_named
    from breakeven.analysis.trend import trend as _trend

    return _trend(metric, segment_named(segment), frontier=frontier)


def overrides(values: Mapping[str, Any], sets: Sequence[str]) -> dict[str, Any]:
    """Command-line values as study keys: the flags that were given, and the `--set KEY=VALUE` texts."""
    given: dict[str, Any] = {key: value for key, value in values.items() if value not in (None, [], ())}
    if sets:
        given["set"] = list(sets)
    return given
