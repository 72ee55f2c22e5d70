"""breakeven as a library: `import breakeven.api as be`.

Knows nothing about terminals: it returns values and raises `breakeven.errors.UserError`.
"""

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakeven.analysis import understand
from breakeven.analysis.advise import advise
from breakeven.analysis.advise_findings import Advice, Limits, Prices
from breakeven.analysis.advise_money import prices_of
from breakeven.analysis.compare import compare, confirmed
from breakeven.analysis.compare_axis import compare_by
from breakeven.analysis.compare_findings import AxisComparison, Comparison
from breakeven.analysis.findings import Understanding
from breakeven.analysis.published import PublishedFindings
from breakeven.analysis.published import published_beside as _beside
from breakeven.analysis.published_boards import boards_beside as _boards_beside
from breakeven.analysis.published_devices import devices_beside as _devices_beside
from breakeven.analysis.published_profiles import profiles_beside as _profiles_beside
from breakeven.errors import UserError
from breakeven.records.file import Results, read, refuse_file
from breakeven.runner.plan import Plan, runtimes_of
from breakeven.runner.plan import plan as _plan
from breakeven.runner.run import Summary, platform_difference
from breakeven.runner.run import run as _run
from breakeven.runner.session import Event
from breakeven.runner.study import Study, load_study, read_study
from breakeven.runner.survey import Survey, fingerprint_of, survey
from breakeven.runner.tasks import settled

if TYPE_CHECKING:
    from breakeven.analysis.predict.types import Prediction
    from breakeven.analysis.trend import Trend
    from breakeven.report import Shown

__all__ = [
    "Advice",
    "AxisComparison",
    "Comparison",
    "Event",
    "Limits",
    "Plan",
    "Prices",
    "Results",
    "Study",
    "Summary",
    "Survey",
    "Understanding",
    "advise",
    "compare",
    "compare_by",
    "confirmed",
    "fetch_data",
    "load_study",
    "look",
    "measure",
    "measure_again",
    "plan",
    "predict",
    "published_beside",
    "read",
    "read_prices",
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
    """Where the study's results go: `out`, else breakeven-results/NAME under the working folder.

    Raises UserError where a file has that name.
    """
    folder = out if out is not None else Path("breakeven-results") / study.name
    refuse_file(folder)
    return folder


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


def measure_again(
    results: Results,
    case_ids: Collection[str],
    *,
    on_event: Callable[[Event], None] = lambda event: None,
    hurry: Callable[[], str | None] = lambda: None,
) -> Summary:
    """Measures cases of a results file again, by as many fresh processes, into `confirm-N` beside the file.

    Raises UserError where the file has no study, is no file of a folder, or was measured on another platform.
    """
    if not results.studies or not results.fingerprints:
        raise UserError(f"{results.path} has no study to measure again from")
    home = Path(results.path).parent
    if not Path(results.path).is_file():
        raise UserError("--confirm measures beside the file of NEW: name its folder or file")
    number = 1
    while (home / f"confirm-{number}").exists():
        number += 1
    study = read_study(json.dumps(dict(results.studies[-1].study)), results.path)
    # As many processes as planned at first, fixed beforehand; another seed, for another order.
    study = dataclasses.replace(
        study,
        replicates=max(study.replicates, _processes(results, case_ids)),
        order_seed=study.order_seed + number,
        best=False,
        full=False,
        max_time=None,
    )
    study = dataclasses.replace(study, max_replicates=study.replicates)
    found = look(study)
    here = fingerprint_of(found)
    if (why := platform_difference(results.fingerprints[-1], here)) is not None:
        raise UserError(
            f"--confirm measures where {results.path} was measured; this is another platform ({why})"
        )
    planned = plan(study, found)
    cases = tuple(item for item in planned.cases if item.case_id in case_ids)
    if missing := len(set(case_ids)) - len(cases):
        raise UserError(f"{missing} of the cases cannot run here any more: see breakeven plan")
    planned = dataclasses.replace(planned, cases=cases, candidates=())
    return _run(study, planned, home / f"confirm-{number}", here, on_event=on_event, hurry=hurry)


def _processes(results: Results, case_ids: Collection[str]) -> int:
    """The most processes that one of the cases got."""
    made = [a.replicate + 1 for a in results.attempts if a.case_id in case_ids and a.purpose == "measure"]
    return max(made, default=1)


def read_prices(path: str | Path) -> Prices:
    """A user's prices: YAML with `currency` and `devices: {LABEL: {hour: X, month: Y}}`. Raises UserError."""
    from breakeven.runner.document import parse_value

    try:
        values = parse_value(Path(path).read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(values, Mapping):
        raise UserError(f"{path}: no prices: write currency: EUR and devices: {{cpu: {{hour: 0.8}}}}")
    return prices_of(values, str(path))


def published_beside(understanding: Understanding) -> PublishedFindings:
    """Published values of the models in these results: of equal work, or refused with a reason.

    And published profiles of their nets, and how many times as fast a GPU was as a CPU elsewhere.
    """
    return dataclasses.replace(
        _beside(understanding.cases),
        boards=_boards_beside(understanding),
        profiles=_profiles_beside(understanding.cases, understanding.profiles),
        devices=_devices_beside(understanding),
    )


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


def predict(results: Sequence[Results], names: str, *, show_all: bool = False) -> "Prediction":
    """The cases of these results on devices that are not here (`"L4, RTX 4090"`). Raises UserError."""
    # Imported here: most uses of the library need no forecast.
    from breakeven.analysis.predict import predict as _predict

    return _predict(results, understand(results, show_all=show_all), names)


def overrides(values: Mapping[str, Any], sets: Sequence[str]) -> dict[str, Any]:
    """Command-line values as study keys: the flags that were given, and the `--set KEY=VALUE` texts."""
    given: dict[str, Any] = {key: value for key, value in values.items() if value not in (None, [], ())}
    if sets:
        given["set"] = list(sets)
    return given
