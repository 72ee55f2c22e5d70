"""Reasons as they stand in lines, in words: what a check found there is a mapping with all its digits.

Knows nothing about what a reason is of.
"""

import ast
import re
from collections.abc import Mapping
from typing import Any

MAPPING = re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
"""A mapping as Python writes it, of mappings at most."""
DIGITS = 2


def in_words(reason: str) -> str:
    """The reason with `{'loss': 6.22901082936167e-07}` as "loss 6.2e-07"; any other text as it is."""
    return MAPPING.sub(lambda found: _told(found[0]), reason)


def _told(text: str) -> str:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return _words(value) if isinstance(value, Mapping) and value else text


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_item(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return " x ".join(map(_words, value))
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


def _item(value: Any) -> str:
    if isinstance(value, Mapping) and {"bits", "precision"} <= value.keys():
        return f"{value['precision']} ({value['bits']} bits)"  # of a probe; its shape is in the record
    return f"({_words(value)})" if isinstance(value, Mapping) else _words(value)
