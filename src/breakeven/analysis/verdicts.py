"""Whether a check's own figures bear out its `ok`: what was found beside what was asked, worked out anew.

Knows nothing about how a check is made. A line may have been edited, or written by another tool.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from breakeven.analysis.findings import QualityFinding
from breakeven.records.lines import Check

AT_MOST = ("output", "output_error", "timed_calls", "one_step_parity", "as_eager")
"""Checks whose `asked` is the greatest error, one figure or several by name."""
AT_LEAST = ("agreement",)
"""Those whose `asked` is the least share."""


def judged(check: Check) -> Check:
    """The same check; where its figures break a limit that it names it has failed, whatever it says."""
    wrong = dict(_contradicted(check.checks))
    if not wrong:
        return check
    reason = "; ".join(f"{name}: {why}, yet called ok" for name, why in wrong.items())
    failed = {name: {**check.checks[name], "ok": False} for name in wrong}
    outcome = "output_mismatch" if check.outcome == "ok" else check.outcome
    return dataclasses.replace(
        check, outcome=outcome, reason=check.reason or reason, checks={**check.checks, **failed}
    )


def overruled(before: list[Check], after: list[Check]) -> list[QualityFinding]:
    """What is said of checks that `judged` changed."""
    changed = [b for a, b in zip(before, after, strict=True) if a is not b]
    if not changed:
        return []
    text = "checks called ok whose figures break their limits (edited?): taken as failed"
    evidence = tuple(f"{c.case_id}/check/{c.fingerprint_id}" for c in changed)
    cases = len({c.case_id for c in changed})
    return [QualityFinding(flag="check_overruled", text=text, cases=cases, evidence=evidence)]


def _contradicted(checks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in (*AT_MOST, *AT_LEAST):
        one = checks.get(name)
        if not isinstance(one, Mapping) or one.get("ok") is False:
            continue
        least = name in AT_LEAST
        for limit, found in _figures(one.get("asked"), one.get("found")):
            if (found < limit) if least else (found > limit):
                yield name, f"found {found:.3g}, asked {'at least' if least else 'at most'} {limit:.3g}"
                break


def _figures(asked: Any, found: Any) -> Iterator[tuple[float, float]]:
    """(limit, figure) of each figure that has a limit; one limit of several is that of their error."""
    if isinstance(asked, Mapping):
        there = found if isinstance(found, Mapping) else dict.fromkeys(asked, found)
        for name, limit in asked.items():
            yield from _figures(limit, there.get(name))
    elif isinstance(found, Mapping):
        yield from _figures(asked, found.get("relative_l2"))
    elif _number(asked) and _number(found):
        yield float(asked), float(found)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
