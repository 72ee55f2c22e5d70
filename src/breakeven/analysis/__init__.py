"""Findings: what the lines of results.jsonl mean. Records in, findings out.

Knows nothing about clocks, frameworks or the look of a report.
"""

from breakeven.analysis.understanding import understand

__all__ = ["understand"]
