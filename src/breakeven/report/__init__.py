"""Reports: one view of the findings, printed in any format.

Knows nothing about records or statistics: what is shown was worked out before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakeven.analysis.findings import Understanding
from breakeven.errors import UserError
from breakeven.report.anonymity import anonymous
from breakeven.report.build import build, only_claims
from breakeven.report.json import document
from breakeven.report.limits import LARGE, SCREEN_ROWS, limited
from breakeven.report.text import text
from breakeven.report.view import Report

if TYPE_CHECKING:
    from breakeven.analysis.predict.types import Prediction
    from breakeven.analysis.published import PublishedFindings
    from breakeven.analysis.trend import Trend

__all__ = [
    "EXPORTS", "LARGE", "SUFFIXES", "Report", "Shown", "anonymous", "build", "document", "only_claims",
    "screen", "text", "write", "write_prediction", "write_text", "write_trend",
]  # fmt: skip

SUFFIXES = (".html", ".md", ".csv", ".json", ".svg", ".png", ".txt")
PICTURES = (".svg", ".png")
EXPORTS = {"pytest-benchmark": ".pytest.json", "github-action-benchmark": ".github.json"}
"""Formats of other tools, and the ending of a name that asks for each without saying so."""


def screen(report: Report, cases: int, *, width: int, colour: bool, name: str) -> str:
    """What the terminal shows of a report: all, or of a large study the summary and where the rest is."""
    if cases <= LARGE:
        return text(report, width=width, colour=colour)
    rest = "the others: -o FILE.html, .txt, .csv or .json"
    shown = text(limited(report, rows=SCREEN_ROWS, rest=rest), width=width, colour=colour, brief=True)
    return (
        f"{shown}\n{cases} cases: breakeven report {name} -o report.html shows them, report.txt lists all.\n"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """Findings that a notebook shows as the page of their report, and a terminal as its text."""

    understanding: Understanding
    height: int = 640

    def _repr_html_(self) -> str:
        """The page in a frame of its own: neither its style nor its script can touch the notebook."""
        from html import escape

        from breakeven.report import html

        page = escape(html.page(build(self.understanding), self.understanding), quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts allow-downloads" title="breakeven report" '
            f'style="width:100%;height:{self.height}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return text(build(self.understanding), brief=True).rstrip("\n")


def write(
    report: Report,
    understanding: Understanding,
    path: str | Path,
    beside: "PublishedFindings | None" = None,
    form: str | None = None,
) -> tuple[Path, ...]:
    """Writes the report in the format of the path's suffix, whole or not at all; says which files it wrote.

    Pictures are one a chart: of `x.svg` the files `x-ladder-resnet18.svg`, `x-scale.svg` and so on beside it,
    `x.svg` itself where there is one chart.

    `form`: a suffix without its dot, or a name of EXPORTS, whatever the path's suffix is.
    UserError, one line, for a suffix that is not known, for charts without the report extra, for a picture
    of a report without a chart, and for a path that cannot be written.
    """
    from breakeven.report import csv
    from breakeven.report.json import to_text

    target = Path(path)
    if (export := _export(form, target.name)) is not None:
        _save(target, _exported(export, understanding))
        return (target,)
    suffix = target.suffix.lower() if form is None else f".{form}"
    findings = _Findings(
        document=lambda: document(understanding, beside),
        line=lambda: to_text(understanding, beside),
        rows=lambda: csv.sheet(understanding),
    )
    return _save_all(report, target, suffix, findings)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Findings:
    """What a format takes besides the view, made only where it is taken."""

    document: Callable[[], Mapping[str, Any]]
    line: Callable[[], str]
    rows: Callable[[], str]


def _export(form: str | None, name: str) -> str | None:
    """The other tool's format that was asked for, by its name or by the ending of the file's."""
    if form is not None:
        return form if form in EXPORTS else None
    return next((tool for tool, ending in EXPORTS.items() if name.lower().endswith(ending)), None)


def _exported(export: str, understanding: Understanding) -> str:
    import json

    from breakeven.report import exports

    make = exports.pytest_benchmark if export == "pytest-benchmark" else exports.github_action
    return json.dumps(make(understanding), indent=2, allow_nan=False) + "\n"


def _save(target: Path, content: str | bytes) -> None:
    try:
        _replace(target, content if isinstance(content, bytes) else content.encode("utf-8"))
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror or error}") from error


def write_trend(found: "Trend", path: str | Path) -> tuple[Path, ...]:
    """Writes a trend in the format of the path's suffix; files and UserError as `write`."""
    from breakeven.report import trend

    made = trend.report(found)
    return _save_own(made, Path(path), lambda: trend.document(found), lambda: trend.sheet(found))


def write_prediction(found: "Prediction", path: str | Path) -> tuple[Path, ...]:
    """Writes forecasts in the format of the path's suffix; files and UserError as `write`."""
    from breakeven.report import predict

    made = predict.report(found)
    return _save_own(made, Path(path), lambda: predict.document(found), lambda: predict.sheet(found))


def _save_own(
    made: Report, target: Path, document_of: Callable[[], Mapping[str, Any]], rows: Callable[[], str]
) -> tuple[Path, ...]:
    import json

    def line() -> str:
        return json.dumps(document_of(), allow_nan=False, separators=(",", ":"))

    findings = _Findings(document=document_of, line=line, rows=rows)
    return _save_all(made, target, target.suffix.lower(), findings)


def _save_all(report: Report, target: Path, suffix: str, findings: _Findings) -> tuple[Path, ...]:
    """The files of a report, all made before the first is written."""
    if suffix not in PICTURES:
        _save(target, _content(report, suffix, findings))
        return (target,)
    from breakeven.report import charts
    from breakeven.report.pictures import pictures

    if not report.charts:
        raise UserError("these results have no chart to draw: write .html, .md, .csv, .json or .txt")
    named = pictures(report.charts)
    files = [target] if len(named) == 1 else [_beside(target, name) for name in named]
    draw = charts.svg if suffix == ".svg" else charts.png
    drawn = [draw(chart) for chart in named.values()]
    for file, content in zip(files, drawn, strict=True):
        _save(file, content)
    return tuple(files)


def _beside(target: Path, name: str) -> Path:
    """`x.svg` and `scale` -> `x-scale.svg`."""
    return target.with_name(f"{target.stem}-{name}{target.suffix}")


def _content(report: Report, suffix: str, findings: _Findings) -> str | bytes:
    # Imported here: printing a text needs neither a template nor a chart.
    import json

    from breakeven.report import html, markdown

    match suffix:
        case ".html":
            return html.page_of(report, findings.line(), findings.rows())
        case ".md":
            return markdown.markdown(report)
        case ".csv":
            return findings.rows()
        case ".json":
            return json.dumps(findings.document(), indent=2, allow_nan=False) + "\n"
        case ".txt":
            return text(report)
    known = ", ".join([*SUFFIXES, *EXPORTS.values()])
    raise UserError(f"cannot tell a format from the suffix {suffix!r}: use one of {known}")


def write_text(content: str, path: str | Path) -> None:
    """Writes a text, whole or not at all. UserError, one line, for a path that cannot be written."""
    _save(Path(path), content)


def _replace(target: Path, content: bytes) -> None:
    """Writes beside the target and moves: whoever reads meanwhile sees the old file or the new one."""
    import os
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        # mkstemp makes it private; a report is as readable as any other file of the user.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
    except BaseException:  # Ctrl-C too must leave no half-written file beside the target
        os.unlink(name)
        raise
