"""Options that several verbs take, and limits as people write them.

Knows nothing about what a verb does.
"""

import re
from pathlib import Path
from typing import Annotated

import typer

from breakeven.errors import UsageError

What = Annotated[
    list[str] | None,
    typer.Argument(metavar="[WHAT]...", help="A study's name, a YAML file or a model; nothing means quick."),
]
Results = Annotated[list[str], typer.Argument(metavar="RESULTS...", help="A folder, a results.jsonl, or -.")]
All = Annotated[bool, typer.Option("--all", help="Also cases that the study no longer has.")]
Written = Annotated[
    Path | None, typer.Option("-o", metavar="FILE", help=".html .md .csv .json .svg .png .txt")
]
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


def with_unit(option: str, text: str | None, unit: str) -> str | None:
    """The text of a limit. UsageError for a number alone: 20 would be seconds, and 0.5 half of everything."""
    from breakeven.units import NUMBER

    if text is not None and re.fullmatch(NUMBER, text.strip().lower()):
        kind = "a share" if unit == "%" else "a duration"
        raise UsageError(f"{option}: not {kind} without its unit: {text!r} (such as {text.strip()}{unit})")
    return text


def parsed(option: str, text: str | None, how: str) -> float | None:
    """The quantity that an option names; None where it was not given."""
    from breakeven import units

    try:
        return None if text is None else float(getattr(units, how)(text))
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
