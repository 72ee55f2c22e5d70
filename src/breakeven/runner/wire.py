"""Cases as JSON between the runner and its children, and back.

Knows nothing about processes.
"""

from functools import lru_cache
from typing import Any

from breakeven.records.canonical import to_json
from breakeven.records.case import Case


@lru_cache(maxsize=1)
def _adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Case)


def case_to_json(case: Case) -> dict[str, Any]:
    """Plain JSON of a case, nothing omitted."""
    value: dict[str, Any] = to_json(case)
    return value


def case_from_json(value: Any) -> Case:
    """The case that `case_to_json` wrote. Raises ValueError (pydantic's) for anything else."""
    case: Case = _adapter().validate_python(value)
    return case
