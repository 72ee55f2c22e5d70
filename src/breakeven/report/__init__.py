"""Reports: one view of the findings, printed in any format.

Knows nothing about records or statistics: what is shown was worked out before.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakeven.analysis.findings import Understanding
from breakeven.errors import UserError
from breakeven.report.build import build, only_claims
from breakeven.report.json import document
from breakeven.report.text import text
from breakeven.report.view import Report

if TYPE_CHECKING:
    from breakeven.analysis.predict.types import Prediction
    from breakeven.analysis.published import PublishedFindings
    from breakeven.analysis.trend import Trend

__all__ = [
    "SUFFIXES", "Report", "build", "document", "only_claims", "text", "write", "write_prediction",
    "write_text", "write_trend",
]  # fmt: skip

SUFFIXES = (".html", ".md", ".csv", ".json", ".svg", ".png", ".txt")


def write(
    report: Report,
    understanding: Understanding,
    path: str | Path,
    beside: "PublishedFindings | None" = None,
) -> None:
    """Writes the report in the format of the path's suffix, whole or not at all.

    UserError, one line, for a suffix that is not known, for charts without the report extra, for a picture
    of a report without a chart, and for a path that cannot be written.
    """
    from breakeven.report import csv

    _write(report, Path(path), lambda: document(understanding, beside), lambda: csv.sheet(understanding))


def _write(
    report: Report, target: Path, findings: Callable[[], Mapping[str, Any]], rows: Callable[[], str]
) -> None:
    content = _content(report, target.suffix.lower(), findings, rows)
    try:
        _replace(target, content if isinstance(content, bytes) else content.encode("utf-8"))
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror or error}") from error


def write_trend(found: "Trend", path: str | Path) -> None:
    """Writes a trend in the format of the path's suffix, whole or not at all. UserError as `write`."""
    from breakeven.report import trend

    made = trend.report(found)
    _write(made, Path(path), lambda: trend.document(found), lambda: trend.sheet(found))


def write_prediction(found: "Prediction", path: str | Path) -> None:
    """Writes forecasts in the format of the path's suffix, whole or not at all. UserError as `write`."""
    from breakeven.report import predict

    made = predict.report(found)
    _write(made, Path(path), lambda: predict.document(found), lambda: predict.sheet(found))


def _content(
    report: Report, suffix: str, findings: Callable[[], Mapping[str, Any]], rows: Callable[[], str]
) -> str | bytes:
    # Imported here: printing a text needs neither a template nor a chart.
    import json

    from breakeven.report import charts, html, markdown

    match suffix:
        case ".html":
            return html.page_of(report, findings(), rows())
        case ".md":
            return markdown.markdown(report)
        case ".csv":
            return rows()
        case ".json":
            return json.dumps(findings(), indent=2, allow_nan=False) + "\n"
        case ".txt":
            return text(report)
        case ".svg" | ".png":
            if not report.charts:
                raise UserError("these results have no chart to draw: write .html, .md, .csv, .json or .txt")
            return charts.svg(report.charts[0]) if suffix == ".svg" else charts.png(report.charts[0])
    known = ", ".join(SUFFIXES)
    raise UserError(f"cannot tell a format from the suffix {suffix!r}: use one of {known}")


def write_text(content: str, path: str | Path) -> None:
    """Writes a text, whole or not at all. UserError, one line, for a path that cannot be written."""
    target = Path(path)
    try:
        _replace(target, content.encode("utf-8"))
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror or error}") from error


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
