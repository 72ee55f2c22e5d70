"""The findings as one JSON document: nothing is lost and nothing is added.

Knows nothing about the view. Keys are the names of the findings' fields, which carry their units.
"""

import json
import math
from typing import TYPE_CHECKING, Any

from breakeven.analysis.findings import Understanding
from breakeven.records.canonical import to_json

if TYPE_CHECKING:
    from breakeven.analysis.published import PublishedFindings

SCHEMA = "breakeven.report/1"


def document(understanding: Understanding, beside: "PublishedFindings | None" = None) -> dict[str, Any]:
    """Plain JSON values; what is not finite is null, for JSON has no other numbers.

    `published` is there where published values were asked for.
    """
    found = plain(understanding)
    return {"schema": SCHEMA, **found} | ({"published": to_json(beside)} if beside else {})


def to_text(understanding: Understanding, beside: "PublishedFindings | None" = None) -> str:
    """The same document as text on one line, made ten times as fast where that can be."""
    from pydantic_core import to_json as fast

    if beside is None:
        try:
            text = fast(understanding, inf_nan_mode="null").decode("utf-8")
        except ValueError:
            pass  # a text that is no Unicode, or a value that the fast way does not know
        else:
            return f'{{"schema":"{SCHEMA}",{text[1:]}'
    return json.dumps(document(understanding, beside), allow_nan=False, separators=(",", ":"))


def plain(findings: object) -> dict[str, Any]:
    """A dataclass of findings as JSON values."""
    found = _finite(to_json(findings))
    assert isinstance(found, dict)
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, str) else value
