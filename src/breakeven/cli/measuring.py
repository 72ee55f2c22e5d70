"""`run` and `plan`: a study as the command line names it, measured or only listed.

Nothing heavy is imported before a verb needs it.
"""

import json
import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakeven.cli.options import (
    Batch,
    Calibration,
    Data,
    DeviceOption,
    Full,
    Infer,
    Json,
    LoadOption,
    MaxP99,
    MaxTime,
    Model,
    Out,
    PrecisionOption,
    Profile,
    Quiet,
    RuntimeOption,
    Sets,
    TuningOption,
    WeightsOption,
    What,
    with_unit,
)
from breakeven.cli.terminal import INTERRUPTED, OK, SOME_FAILED, Interrupts, colour, width
from breakeven.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from breakeven.analysis.findings import Understanding
    from breakeven.runner.study import Study

FAILURES = frozenset(
    {"error", "invalid", "timeout", "killed", "device_mismatch", "precision_mismatch", "output_mismatch"}
)
"""Outcomes that make a run exit 3. A searched out-of-memory or an unsupported case is no failure."""


def run(
    what: What = None,
    model: Model = None,
    device: DeviceOption = None,
    runtime: RuntimeOption = None,
    precision: PrecisionOption = None,
    batch: Batch = None,
    tuning: TuningOption = None,
    data: Data = None,
    infer: Infer = None,
    weights: WeightsOption = None,
    calibration: Calibration = None,
    load: LoadOption = None,
    max_p99: MaxP99 = None,
    full: Full = False,
    profile: Profile = False,
    max_time: MaxTime = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Set earlier results aside and begin anew.")] = False,
    download: Annotated[bool, typer.Option("--download", help="Fetch a data set that is not here.")] = False,
    set_: Sets = None,
    out: Out = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Measure; the same command goes on where it stopped. Prints the verdict and where the report is."""
    from breakeven import api
    from breakeven.progress import Progress
    from breakeven.runner.inventory import plan_heading

    study = _study(
        what, set_, model=model, device=device, runtime=runtime, precision=precision, batch=batch,
        tuning=tuning, data=data, infer=infer, weights=weights, calibration=calibration, load=load,
        max_p99=max_p99, full=full, profile=profile, max_time=max_time,
    )  # fmt: skip
    folder = api.results_folder(study, out)
    wish = Interrupts()
    with Progress(quiet=quiet) as progress:
        if download:
            for name in api.fetch_data(study):
                progress.note(f"fetched {name}")
        planned = api.plan(study, api.look(study))
        progress.note(textwrap.fill(plan_heading(planned), 80))
        for skip in planned.skips:
            progress.note(f"skip {skip.what}: {skip.reason}")
        for note in planned.notes:
            progress.note(note)
        with wish:
            summary = api.measure(study, folder, fresh=fresh, on_event=progress.show, hurry=wish.asked)
        if not summary.attempts and not summary.stopped:
            progress.warn(f"nothing left to measure: {summary.path} has it all (--fresh measures again)")
        if wish.asked():
            progress.note("stopped; the same command goes on from here")
        elif summary.stopped:
            progress.note(f"stopped at --max-time; the same command goes on from here ({summary.path})")
    understanding = api.understand([api.read(summary.path)])
    page = _save_report(understanding, folder / "report.html", quiet=quiet)
    _print_report(understanding, as_json=as_json, brief=True)
    if not as_json and not quiet:
        _after(folder, page, study)
    if wish.asked():
        return INTERRUPTED
    return SOME_FAILED if failed(summary.outcomes, understanding) else OK


def plan(
    what: What = None,
    model: Model = None,
    device: DeviceOption = None,
    runtime: RuntimeOption = None,
    precision: PrecisionOption = None,
    batch: Batch = None,
    tuning: TuningOption = None,
    data: Data = None,
    infer: Infer = None,
    weights: WeightsOption = None,
    calibration: Calibration = None,
    load: LoadOption = None,
    max_p99: MaxP99 = None,
    full: Full = False,
    profile: Profile = False,
    max_time: MaxTime = None,
    set_: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Show the cases, the skips with reasons and the estimated time; run nothing."""
    from breakeven import api
    from breakeven.report.plain import columns
    from breakeven.runner import inventory

    study = _study(
        what, set_, model=model, device=device, runtime=runtime, precision=precision, batch=batch,
        tuning=tuning, data=data, infer=infer, weights=weights, calibration=calibration, load=load,
        max_p99=max_p99, full=full, profile=profile, max_time=max_time,
    )  # fmt: skip
    planned = api.plan(study, api.look(study))
    if as_json:
        print(json.dumps(inventory.plan_document(planned), allow_nan=False))
        return OK
    print(textwrap.fill(inventory.plan_heading(planned), width()))
    rows = [{k: v for k, v in row.items() if k != "case_id"} for row in inventory.plan_rows(planned)]
    print(columns(rows, width=width()))
    if planned.skips and not quiet:
        print("\nSkipped:")
        print(columns([{"what": s.what, "reason": s.reason} for s in planned.skips], width=width()))
    for note in planned.notes:
        print(f"note: {note}")
    return OK


def failed(outcomes: "Mapping[str, int]", found: "Understanding") -> bool:
    """Whether something of this run failed, or the findings refuse what all its processes call a number."""
    invalid = any(case.outcomes.get("invalid") for case in found.cases)
    return bool(FAILURES & set(outcomes)) or invalid


def _study(
    what: list[str] | None,
    sets: list[str] | None,
    *,
    infer: bool | None,
    max_p99: str | None,
    full: bool,
    profile: bool,
    **axes: Any,
) -> "Study":
    """The study that the options name. What was not given is None: it leaves the study's own value."""
    from breakeven.api import load_study, overrides

    flags = {
        **axes,
        "task": None if infer is None else "infer" if infer else "train",
        "p99_limit_ms": with_unit("--max-p99", max_p99, "ms"),
        "full": full or None,
        "profile": profile or None,
    }
    return load_study(tuple(what or ()), overrides(flags, sets or ()))


def _save_report(understanding: "Understanding", path: Path, *, quiet: bool) -> Path | None:
    """Writes the HTML report; without the extra that draws charts, says how to get it instead."""
    from breakeven import report

    try:
        report.write(report.build(understanding), understanding, path)
    except UserError as error:
        if not quiet:
            print(f"breakeven: no report.html: {error}", file=sys.stderr)
        return None
    return path


def _print_report(understanding: "Understanding", *, as_json: bool, brief: bool = False) -> None:
    from breakeven import report

    if as_json:
        print(json.dumps(report.document(understanding), allow_nan=False))
    else:
        print(report.text(report.build(understanding), width=width(), colour=colour(), brief=brief), end="")


def _after(folder: Path, page: Path | None, study: "Study") -> None:
    print(f"\nSaved {folder}/" + (f" ({page.name})" if page else ""))
    print(f"Next: breakeven report {shlex.quote(str(folder))} -o report.md")
