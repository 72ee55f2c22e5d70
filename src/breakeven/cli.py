"""The command line: verbs, options, exit codes. With `progress`, the only place that prints or exits.

Knows nothing about how anything is measured or worked out. Nothing heavy is imported before a verb needs it.
"""

import gc
import json
import os
import re
import shlex
import shutil
import signal
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from breakeven import __version__
from breakeven.errors import UsageError, UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from breakeven.analysis.findings import Understanding
    from breakeven.runner.study import Study

OK, USER_ERROR, USAGE, SOME_FAILED, GATE, INTERRUPTED = 0, 1, 2, 3, 4, 130
FAILURES = frozenset(
    {"error", "invalid", "timeout", "killed", "device_mismatch", "precision_mismatch", "output_mismatch"}
)
"""Outcomes that make a run exit 3. A searched out-of-memory or an unsupported case is no failure."""

app = typer.Typer(
    name="breakeven",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="How much faster does a model train on one device than on another, and how sure is that?",
    epilog="Start with: breakeven run",
)

What = Annotated[
    list[str] | None,
    typer.Argument(metavar="[WHAT]...", help="A study's name, a YAML file or a model; nothing means quick."),
]
Results = Annotated[list[str], typer.Argument(metavar="RESULTS...", help="A folder, a results.jsonl, or -.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no notes on stderr.")]
Axis = list[str] | None
Model = Annotated[Axis, typer.Option("--model", help="Model reference; repeat or separate by commas.")]
DeviceOption = Annotated[
    Axis, typer.Option("--device", help="cpu, cpu:threads=4, cuda:0, sim:gpu or auto; repeat for several.")
]
RuntimeOption = Annotated[
    Axis, typer.Option("--runtime", help="torch, tensorflow, jax, onnxruntime, openvino, sim.")
]
PrecisionOption = Annotated[Axis, typer.Option("--precision", help="default, fp32, tf32, fp16, bf16, int8.")]
Batch = Annotated[Axis, typer.Option("--batch", help="Samples a step: 128, or 1..64 doubling.")]
TuningOption = Annotated[Axis, typer.Option("--tuning", help="Preset: see list tunings.")]
Data = Annotated[Axis, typer.Option("--data", help="digits, fashion-mnist, cifar10, photos, ...")]
Infer = Annotated[
    bool | None, typer.Option("--infer/--train", help="Inference: a stream of calls, and single ones.")
]
WeightsOption = Annotated[
    str | None,
    typer.Option("--weights", metavar="SOURCE", help="Trained weights: .npz, .pth or package:NAME."),
]
Calibration = Annotated[
    str | None,
    typer.Option("--calibration", metavar="RECIPE", help="Of int8: a number of images, or DIR."),
]
LoadOption = Annotated[
    Axis,
    typer.Option("--load", metavar="SCENARIO", help="MLPerf LoadGen: single-stream, server, ..., or all."),
]
MaxP99 = Annotated[
    str | None, typer.Option("--max-p99", metavar="TIME", help="Of --load server: 99 % answered within 20ms.")
]
Full = Annotated[bool, typer.Option("--full", help="Also train all epochs: accuracy, and forecasts judged.")]
Profile = Annotated[
    bool, typer.Option("--profile", help="Also profile a few steps: operators, kernels, a trace.")
]
MaxTime = Annotated[
    str | None, typer.Option("--max-time", metavar="TIME", help="Stop cleanly after this long: 10min, 1h.")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any study key: --set recipe.epochs=2.")
]
PriceOption = Annotated[
    Path | None, typer.Option("--price", metavar="FILE", help="YAML: prices of devices, hour and month.")
]
Out = Annotated[Path | None, typer.Option("-o", metavar="DIR", help="Default: breakeven-results/NAME.")]


def main() -> NoReturn:
    """The console script: runs a verb; every user error is one line on stderr."""
    try:
        if len(sys.argv) == 1:
            sys.argv.append("--help")
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        _fail(str(error), USAGE)
    except UserError as error:
        _fail(str(error), USER_ERROR)
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except typer.Abort:
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is left to say to it, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(OK)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"cannot write the output: {error.strerror or error}", USER_ERROR)
    except Exception as error:
        shown = _usage_text(error)
        if shown is None:
            raise
        _fail(shown, USAGE)
    sys.exit(status if isinstance(status, int) else OK)


def _usage_text(error: Exception) -> str | None:
    """The one line of a command-line error raised by the option parser; None for anything else."""
    text = getattr(error, "format_message", None)
    if text is None or not hasattr(error, "exit_code"):
        return None
    option = str(getattr(error, "option_name", "")).lstrip("-").replace("-", "_")
    if option:
        from breakeven.runner.flags import key_named

        if (key := key_named(option)) is not None:
            return f"no option --{option}: it is a key of a study, so write --set {key}=VALUE"
    return " ".join(str(text()).split())


def _fail(text: str, status: int) -> NoReturn:
    print(f"breakeven: {text}", file=sys.stderr)
    sys.exit(status)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"breakeven {__version__}")
        raise typer.Exit(OK)


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """How much faster does a model train on one device than on another, and how sure is that?"""


def _task(infer: bool | None) -> str | None:
    return None if infer is None else "infer" if infer else "train"


def _study(what: list[str] | None, sets: list[str] | None, **flags: Any) -> "Study":
    from breakeven.api import load_study, overrides

    return load_study(tuple(what or ()), overrides(flags, sets or ()))


@app.command()
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
        tuning=tuning, data=data, full=full or None, max_time=max_time, weights=weights,
        calibration=calibration, task=_task(infer), load=load, profile=profile or None,
        p99_limit_ms=_with_unit("--max-p99", max_p99, "ms"),
    )  # fmt: skip
    folder = api.results_folder(study, out)
    wish = _Interrupts()
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


def failed(outcomes: "Mapping[str, int]", found: "Understanding") -> bool:
    """Whether something of this run failed, or the findings refuse what all its processes call a number."""
    invalid = any(case.outcomes.get("invalid") for case in found.cases)
    return bool(FAILURES & set(outcomes)) or invalid


class _Interrupts:
    """Ctrl-C once asks to finish the running attempt and stop; twice asks to stop at once."""

    def __init__(self) -> None:
        self._count = 0
        self._before: Any = None

    def __enter__(self) -> "_Interrupts":
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, signum: int, frame: object) -> None:
        self._count += 1
        if self._count == 1:
            print("\nfinishing the running attempt; Ctrl-C again stops at once", file=sys.stderr)

    def asked(self) -> str | None:
        return (None, "finish", "kill")[min(self._count, 2)]


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
        print(report.text(report.build(understanding), width=_width(), colour=_colour(), brief=brief), end="")


def _width() -> int:
    """Columns of the terminal, 80 where there is none; wider than 120 is hard to read."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, 60), 120)


def _colour() -> bool:
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _after(folder: Path, page: Path | None, study: "Study") -> None:
    print(f"\nSaved {folder}/" + (f" ({page.name})" if page else ""))
    print(f"Next: breakeven report {shlex.quote(str(folder))} -o report.md")


@app.command()
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
        tuning=tuning, data=data, full=full or None, max_time=max_time, weights=weights,
        calibration=calibration, task=_task(infer), load=load, profile=profile or None,
        p99_limit_ms=_with_unit("--max-p99", max_p99, "ms"),
    )  # fmt: skip
    planned = api.plan(study, api.look(study))
    if as_json:
        print(json.dumps(inventory.plan_document(planned), allow_nan=False))
        return OK
    print(textwrap.fill(inventory.plan_heading(planned), _width()))
    rows = [{k: v for k, v in row.items() if k != "case_id"} for row in inventory.plan_rows(planned)]
    print(columns(rows, width=_width()))
    if planned.skips and not quiet:
        print("\nSkipped:")
        print(columns([{"what": s.what, "reason": s.reason} for s in planned.skips], width=_width()))
    for note in planned.notes:
        print(f"note: {note}")
    return OK


@app.command()
def report(
    results: Results,
    out: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", help=".html .md .csv .json .svg .png .txt")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Also cases that the study no longer has.")] = False,
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
    # Not by the library's front, which brings all that measures: a tenth of a report's time.
    from breakeven import report as reports
    from breakeven.analysis import understand

    # Nothing that a report makes is garbage before its end: looking for some takes a quarter of the time.
    gc.disable()
    understanding = understand([_read(name) for name in results], show_all=show_all)
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
        _say_saved(files, quiet=quiet, as_json=as_json)
    if as_json:
        print(json.dumps(reports.document(understanding, beside), allow_nan=False))
    elif out is None:
        shown = " ".join(map(shlex.quote, results))
        cases = 0 if claims else len(understanding.cases)
        print(reports.screen(made, cases, width=_width(), colour=_colour(), name=shown), end="")
    return OK


def _say_saved(files: Sequence[Path], *, quiet: bool, as_json: bool) -> None:
    """One file is said beside the output; several are the output, a line each, for a script to go on with."""
    for file in () if quiet else files:
        if len(files) == 1 or as_json:
            print(f"Saved {file}", file=sys.stderr)
        else:
            print(file)


def _prices(path: Path) -> Any:
    from breakeven import api

    return api.read_prices(path)


def _published(understanding: "Understanding") -> Any:
    from breakeven.analysis.published import published_beside

    return published_beside(understanding.cases)


@app.command()
def trend(
    metric: Annotated[str, typer.Argument(metavar="memory|bandwidth|fp32|fp16|power")],
    segment: Annotated[str, typer.Option("--segment", help="datacenter, consumer or all.")] = "datacenter",
    frontier: Annotated[bool, typer.Option("--frontier", help="Only boards that set a record.")] = False,
    out: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", help=".html .md .csv .json .svg .png .txt")
    ] = None,
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
        _say_saved(files, quiet=quiet, as_json=as_json)
    if as_json:
        print(json.dumps(trends.document(found), allow_nan=False))
    elif out is None:
        print(reports.text(trends.report(found), width=_width(), colour=_colour()), end="")
    return OK


@app.command()
def predict(
    results: Results,
    wanted: Annotated[
        str, typer.Option("--for", metavar="NAMES", help="GPUs and CPUs of the catalog: 'L4, RTX 4090'.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", help=".html .md .csv .json .svg .png .txt")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Also cases that the study no longer has.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """What these cases would take on hardware that is not here, with the method's error."""
    from breakeven import api
    from breakeven import report as reports
    from breakeven.report import predict as predictions

    found = api.predict([_read(name) for name in results], wanted, show_all=show_all)
    if out is not None:
        files = reports.write_prediction(found, out)
        _say_saved(files, quiet=quiet, as_json=as_json)
    if as_json:
        print(json.dumps(predictions.document(found), allow_nan=False))
    elif out is None:
        print(reports.text(predictions.report(found), width=_width(), colour=_colour()), end="")
    return OK


def _read(name: str) -> Any:
    from breakeven.records import file

    return file.read_text(sys.stdin.buffer.read(), "stdin") if name == "-" else file.read(name)


@app.command()
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
    show_all: Annotated[bool, typer.Option("--all", help="Also cases that the study no longer has.")] = False,
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
        max_p99_s=_parsed("--max-p99", _with_unit("--max-p99", max_p99, "ms"), "parse_duration"),
        min_rate=min_rate,
        max_memory_mib=_parsed("--max-memory", max_memory, "parse_size"),
        max_joules=max_joules,
        max_accuracy_drop=_parsed(
            "--max-accuracy-drop", _with_unit("--max-accuracy-drop", max_accuracy_drop, "%"), "parse_share"
        ),
        epochs=epochs,
        accuracy=_parsed("--accuracy", _with_unit("--accuracy", accuracy, "%"), "parse_share"),
    )
    prices = None if price is None else api.read_prices(price)
    found = api.advise(
        _read(results),
        limits,
        prices=prices,
        task=for_,  # type: ignore[arg-type]
        co2_g_per_kwh=co2,
        show_all=show_all,
    )
    if as_json:
        print(json.dumps(advice_document(found), allow_nan=False))
    else:
        print(reports.text(advice_report(found), width=_width(), colour=_colour()), end="")
    return OK


def _with_unit(option: str, text: str | None, unit: str) -> str | None:
    """The text of a limit. UsageError for a number alone: 20 would be seconds, and 0.5 half of everything."""
    from breakeven.units import NUMBER

    if text is not None and re.fullmatch(NUMBER, text.strip().lower()):
        kind = "a share" if unit == "%" else "a duration"
        raise UsageError(f"{option}: not {kind} without its unit: {text!r} (such as {text.strip()}{unit})")
    return text


def _parsed(option: str, text: str | None, how: str) -> float | None:
    """The quantity that an option names; None where it was not given."""
    from breakeven import units

    try:
        return None if text is None else float(getattr(units, how)(text))
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


@app.command()
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
    show_all: Annotated[bool, typer.Option("--all", help="Also cases that the study no longer has.")] = False,
    out: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", help="Also write it: .md (GitHub), .txt or .json.")
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
            api.compare_by(_read(results[0]), by, show_all=show_all), out, as_json=as_json, quiet=quiet
        )
        return OK
    if len(results) != 2:
        raise UsageError(
            "compare takes BASE and NEW; one RESULTS with --by precision, device, runtime or tuning"
        )
    threshold = _threshold(fail_if_slower)
    if threshold is None and (strict or confirm):
        raise UsageError("--strict and --confirm are of the gate: add --fail-if-slower 5%")
    base, new = (_read(name) for name in results)
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

    wish = _Interrupts()
    with Progress(quiet=quiet) as progress, wish:
        progress.note(f"measured again: {len(case_ids)} of the cases, by fresh processes")
        summary = api.measure_again(new, case_ids, on_event=progress.show, hurry=wish.asked)
    if summary.stopped:
        raise KeyboardInterrupt
    return api.read(summary.path)


def _threshold(text: str | None) -> float | None:
    """The share of --fail-if-slower; None where it was not given."""
    found = _parsed("--fail-if-slower", _with_unit("--fail-if-slower", text, "%"), "parse_share")
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
        print(reports.text(made, width=_width(), colour=_colour()), end="")


@app.command("list")
def list_(
    what: Annotated[
        str, typer.Argument(metavar="studies|models|tunings|devices|runtimes|data|gpus|cpus|published")
    ],
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """List what can be named."""
    from breakeven.report.plain import columns
    from breakeven.runner import inventory

    if as_json:
        print(json.dumps(inventory.rows(what), allow_nan=False))
        return OK
    print(columns(inventory.rows(what, brief=True), width=_width()))
    if not quiet and what == "published":
        from breakeven.analysis.published_ratios import sentences

        print("\nWorked out from these rows:")
        for sentence in sentences():
            print(textwrap.fill(sentence, _width(), initial_indent="- ", subsequent_indent="  "))
    if not quiet and (credit := inventory.CREDITS.get(what)):
        print("\n" + textwrap.fill(credit, _width()))
    return OK


@app.command()
def doctor(
    ceilings: Annotated[
        bool, typer.Option("--ceilings", help="Also measure what every device does at best; half a minute.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Show what is here, what is missing, and what would spoil a measurement."""
    from breakeven.runner import inventory

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr)

    found = inventory.doctor(ceilings=ceilings, say=say)
    print(json.dumps(found, allow_nan=False) if as_json else _doctor_text(found))
    return OK


def _doctor_text(found: dict[str, Any]) -> str:
    from breakeven.report.plain import columns
    from breakeven.runner.inventory import ceiling_rows

    parts = [f"breakeven {found['breakeven']}, {found['cores_offered']} cores offered, {found['gpus']} GPUs"]
    parts += [columns(found[what]) for what in ("runtimes", "devices", "data")]
    if "ceilings" in found:
        parts.append(columns(ceiling_rows(found["ceilings"])))
    concerns = [
        {"": concern["severity"], "concern": concern["text"], "what to do": concern["fix"]}
        for concern in found["concerns"]
    ]
    parts.append(columns(concerns) if concerns else "Nothing here would spoil a measurement.")
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
