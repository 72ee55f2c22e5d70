"""`report`, `trend` and `predict`: what results and the catalog say, on the screen or in a file.

Nothing heavy is imported before a verb needs it.
"""

import gc
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakeven.cli.options import All, Json, PriceOption, Quiet, Results, Written
from breakeven.cli.terminal import OK, colour, results_of, say_saved, width
from breakeven.errors import UsageError

if TYPE_CHECKING:
    from breakeven.analysis.findings import Understanding


def report(
    results: Results,
    out: Written = None,
    show_all: All = False,
    claims: Annotated[bool, typer.Option("--claims", help="Published claims against these results.")] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Published values of equal work beside these results.")
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="Of -o, whatever its suffix; also pytest-benchmark, github-action-benchmark."
        ),
    ] = None,
    anonymous: Annotated[
        bool,
        typer.Option("--anonymous", help="Without serials, machine ids and paths: to be shown to others."),
    ] = False,
    price: PriceOption = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Print what the results say, or write it to a file by its suffix."""
    if claims and published:
        raise UsageError("--claims and --published are two reports: ask for one at a time")
    # Nothing that a report makes is garbage before its end: looking for some takes a quarter of the time.
    gc.disable()
    # Not by the library's front, which brings all that measures: a tenth of a report's time.
    from breakeven import report as reports
    from breakeven.analysis import understand

    understanding = understand([results_of(name) for name in results], show_all=show_all)
    if anonymous:
        understanding = reports.anonymous(understanding)
    if form is not None and (
        out is None or (f".{form}" not in reports.SUFFIXES and form not in reports.EXPORTS)
    ):
        known = ", ".join([*(suffix[1:] for suffix in reports.SUFFIXES), *reports.EXPORTS])
        raise UsageError(f"--format needs -o FILE and one of {known}")
    prices = None if price is None else _prices(price)
    beside = _published(understanding) if published else None
    made = reports.only_claims(understanding) if claims else reports.build(understanding, beside, prices)
    if out is not None:
        files = reports.write(made, understanding, out, beside, form)
        say_saved(files, quiet=quiet, as_json=as_json)
    if as_json:
        print(json.dumps(reports.document(understanding, beside), allow_nan=False))
    elif out is None:
        shown = " ".join(map(shlex.quote, results))
        cases = 0 if claims else len(understanding.cases)
        print(reports.screen(made, cases, width=width(), colour=colour(), name=shown), end="")
    # At its end the interpreter would look all the same.
    gc.freeze()
    return OK


def trend(
    metric: Annotated[str, typer.Argument(metavar="memory|bandwidth|fp32|fp16|power")],
    segment: Annotated[str, typer.Option("--segment", help="datacenter, consumer or all.")] = "datacenter",
    frontier: Annotated[bool, typer.Option("--frontier", help="Only boards that set a record.")] = False,
    out: Written = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """How GPUs have grown since 2000, and what that allows to say of 2030."""
    from breakeven import api
    from breakeven import report as reports
    from breakeven.report import trend as trends

    found = api.trend(metric, segment, frontier=frontier)
    if out is not None:
        files = reports.write_trend(found, out)
        say_saved(files, quiet=quiet, as_json=as_json)
    if as_json:
        print(json.dumps(trends.document(found), allow_nan=False))
    elif out is None:
        print(reports.text(trends.report(found), width=width(), colour=colour()), end="")
    return OK


def predict(
    results: Results,
    wanted: Annotated[
        str, typer.Option("--for", metavar="NAMES", help="GPUs and CPUs of the catalog: 'L4, RTX 4090'.")
    ],
    out: Written = None,
    show_all: All = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """What these cases would take on hardware that is not here, with the method's error."""
    from breakeven import api
    from breakeven import report as reports
    from breakeven.report import predict as predictions

    found = api.predict([results_of(name) for name in results], wanted, show_all=show_all)
    if out is not None:
        files = reports.write_prediction(found, out)
        say_saved(files, quiet=quiet, as_json=as_json)
    if as_json:
        print(json.dumps(predictions.document(found), allow_nan=False))
    elif out is None:
        print(reports.text(predictions.report(found), width=width(), colour=colour()), end="")
    return OK


def _prices(path: Path) -> Any:
    from breakeven import api

    return api.read_prices(path)


def _published(understanding: "Understanding") -> Any:
    from breakeven import api

    return api.published_beside(understanding)
