"""Findings without what names a board, a file or a person: to be shown to others.

Knows nothing about formats: it goes through every text of the findings. What a machine is made of stays, for
no number means anything without it; which one of its kind it was goes.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from breakeven.analysis.findings import Understanding

# An absolute path or one below a home: two parts at least, so that "images/s" is none.
PATH = re.compile(r"(?<![\w.:/])(?:~|/|[A-Za-z]:\\)[^\s/\\,;'\"()]*(?:[/\\][^\s/\\,;'\"()]+)+")
LEFT_OUT = "left out: --anonymous"


def anonymous(understanding: Understanding) -> Understanding:
    """The same findings with files and machines numbered, paths and the machines' own parts left out."""
    known_units = [
        *(m.get("fingerprint_id") for m in understanding.machines),
        *(c.unit for c in understanding.cases),
    ]
    units = dict.fromkeys(str(unit) for unit in known_units if unit)
    names = {source: f"results {i}" for i, source in enumerate(dict.fromkeys(understanding.sources), start=1)}
    names |= {unit: f"machine {i}" for i, unit in enumerate(units, start=1)}

    def text(words: str) -> str:
        if words in names:
            return names[words]
        for known, name in names.items():
            words = words.replace(known, name)
        return PATH.sub("(path)", words)

    found = _through(understanding, text)
    assert isinstance(found, Understanding)
    return dataclasses.replace(found, machines=tuple(map(_machine, found.machines)))


def _machine(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The machine's facts less those of this very one (serials and identifiers, hashed or not)."""
    return {key: LEFT_OUT if key == "unit" else value for key, value in facts.items()}


def _through(value: Any, text: Callable[[str], str]) -> Any:
    """The same value with every text in it changed; keys stay."""
    if isinstance(value, str):
        return text(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        changed = {name: _through(item, text) for name, item in fields.items()}
        return dataclasses.replace(value, **{n: v for n, v in changed.items() if v is not fields[n]})
    if isinstance(value, Mapping):
        return {key: _through(item, text) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_through(item, text) for item in value)
    return value
