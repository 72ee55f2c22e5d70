"""The findings as one JSON document: nothing is lost and nothing is added.

Knows nothing about the view. Keys are the names of the findings' fields, which carry their units.
"""

import math
from typing import Any

from breakeven.analysis.findings import Understanding
from breakeven.analysis.published import PublishedFindings
from breakeven.records.canonical import to_json

SCHEMA = "breakeven.report/1"


def document(understanding: Understanding, beside: PublishedFindings | None = None) -> dict[str, Any]:
    """Plain JSON values; what is not finite is null, for JSON has no other numbers.

    `published` is there where published values were asked for.
    """
    found = plain(understanding)
    return {"schema": SCHEMA, **found} | ({"published": to_json(beside)} if beside else {})


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
