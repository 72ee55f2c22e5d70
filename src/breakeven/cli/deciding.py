"""`advise` and `compare`: what to run under limits, and whether one result is slower than another.

Nothing heavy is imported before a verb needs it.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from breakeven.cli.options import All, Json, PriceOption, Quiet, parsed, with_unit
from breakeven.cli.terminal import GATE, OK, Interrupts, colour, results_of, width
from breakeven.errors import UsageError


def advise(
    results: Annotated[str, typer.Argument(metavar="RESULTS", help="A folder, a results.jsonl, or -.")],
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TASK", help="train or infer; default: what is there.")
    ] = None,
    max_p99: Annotated[
        str | None, typer.Option("--max-p99", metavar="TIME", help="99 % of single calls within: 20ms.")
    ] = None,
    min_rate: Annotated[
        float | None, typer.Option("--min-rate", metavar="N", help="Images a second at least.")
    ] = None,
    max_memory: Annotated[
        str | None, typer.Option("--max-memory", metavar="SIZE", help="Of the device: 8GiB.")
    ] = None,
    max_joules: Annotated[
        float | None, typer.Option("--max-joules", metavar="J", help="Gross energy an image at most.")
    ] = None,
    max_accuracy_drop: Annotated[
        str | None, typer.Option("--max-accuracy-drop", metavar="SHARE", help="Against full precision: 0.5%.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", metavar="N", min=1, help="A training of N epochs.")
    ] = None,
    accuracy: Annotated[
        str | None, typer.Option("--accuracy", metavar="SHARE", help="A training to this accuracy: 90%.")
    ] = None,
    price: PriceOption = None,
    co2: Annotated[
        float | None,
        typer.Option("--co2", metavar="G_PER_KWH", help="Grams of CO2 a kWh, for measured joules."),
    ] = None,
    show_all: All = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Say what to run under limits of latency, rate, memory, energy, accuracy or money."""
    from breakeven import api
    from breakeven import report as reports
    from breakeven.report.advise import advice_document, advice_report

    if for_ not in (None, "train", "infer"):
        raise UsageError(f"--for takes train or infer, not {for_!r}")
    limits = api.Limits(
        max_p99_s=parsed("--max-p99", with_unit("--max-p99", max_p99, "ms"), "parse_duration"),
        min_rate=min_rate,
        max_memory_mib=parsed("--max-memory", max_memory, "parse_size"),
        max_joules=max_joules,
        max_accuracy_drop=parsed(
            "--max-accuracy-drop", with_unit("--max-accuracy-drop", max_accuracy_drop, "%"), "parse_share"
        ),
        epochs=epochs,
        accuracy=parsed("--accuracy", with_unit("--accuracy", accuracy, "%"), "parse_share"),
    )
    prices = None if price is None else api.read_prices(price)
    found = api.advise(
        results_of(results),
        limits,
        prices=prices,
        task=for_,  # type: ignore[arg-type]
        co2_g_per_kwh=co2,
        show_all=show_all,
    )
    if as_json:
        print(json.dumps(advice_document(found), allow_nan=False))
    else:
        print(reports.text(advice_report(found), width=width(), colour=colour()), end="")
    return OK


def compare(
    results: Annotated[
        list[str], typer.Argument(metavar="BASE [NEW]", help="Two results; with --by one of them.")
    ],
    by: Annotated[
        str | None, typer.Option("--by", metavar="AXIS", help="precision, device, runtime or tuning.")
    ] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option("--fail-if-slower", metavar="SHARE", help="Exit 4 if a case is slower by more: 5%."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="What could not be decided fails the gate too.")
    ] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Measure again what fails; those processes alone decide.")
    ] = False,
    across_machines: Annotated[
        bool, typer.Option("--across-machines", help="The two may be of different machines; no gate.")
    ] = False,
    show_all: All = False,
    out: Annotated[
        Path | None,
        typer.Option("-o", metavar="FILE", help="Also write it: .html, .md (GitHub), .txt, .csv or .json."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Compare two results case by case, or with --by the values of one axis; a gate for CI."""
    from breakeven import api
    from breakeven.analysis.compare_axis import AXES

    if by is not None:
        if by not in AXES:
            raise UsageError(f"--by takes {', '.join(AXES)}, not {by!r}")
        if len(results) != 1 or fail_if_slower or strict or confirm or across_machines:
            raise UsageError("--by compares within one RESULTS, without a gate")
        _print_comparison(
            api.compare_by(results_of(results[0]), by, show_all=show_all), out, as_json=as_json, quiet=quiet
        )
        return OK
    if len(results) != 2:
        raise UsageError(
            "compare takes BASE and NEW; one RESULTS with --by precision, device, runtime or tuning"
        )
    threshold = _threshold(fail_if_slower)
    if threshold is None and (strict or confirm):
        raise UsageError("--strict and --confirm are of the gate: add --fail-if-slower 5%")
    base, new = (results_of(name) for name in results)
    found = api.compare(
        base, new, fail_if_slower=threshold, strict=strict, across=across_machines, show_all=show_all
    )
    if confirm and found.suspects:
        found = api.confirmed(found, base, _measured_again(new, found.suspects, quiet=quiet))
    _print_comparison(found, out, as_json=as_json, quiet=quiet)
    return OK if found.passed else GATE


def _measured_again(new: Any, case_ids: tuple[str, ...], *, quiet: bool) -> Any:
    """The results of the suspects' fresh processes."""
    from breakeven import api
    from breakeven.progress import Progress

    wish = Interrupts()
    with Progress(quiet=quiet) as progress, wish:
        progress.note(f"measured again: {len(case_ids)} of the cases, by fresh processes")
        summary = api.measure_again(new, case_ids, on_event=progress.show, hurry=wish.asked)
    if summary.stopped:
        raise KeyboardInterrupt
    return api.read(summary.path)


def _threshold(text: str | None) -> float | None:
    """The share of --fail-if-slower; None where it was not given."""
    found = parsed("--fail-if-slower", with_unit("--fail-if-slower", text, "%"), "parse_share")
    if found == 0:
        raise UsageError("--fail-if-slower: no finite number of processes tells a difference of exactly 0")
    return found


def _print_comparison(found: Any, out: Path | None, *, as_json: bool, quiet: bool) -> None:
    from breakeven import report as reports
    from breakeven.report import compare as comparisons

    if out is not None:
        reports.write_text(comparisons.written(found, out), out)
        if not quiet:
            print(f"Saved {out}", file=sys.stderr)
    if as_json:
        print(json.dumps(comparisons.comparison_document(found), allow_nan=False))
    else:
        made = comparisons.comparison_report(found)
        print(reports.text(made, width=width(), colour=colour()), end="")
