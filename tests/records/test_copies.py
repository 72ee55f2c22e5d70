"""A copy with changes is what `dataclasses.replace` makes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from breakeven.records.blocks import Block
from breakeven.records.case import Device, Tuning
from breakeven.records.copies import replace


@pytest.mark.parametrize("changes", [{}, {"threads": 4}, {"precision": "bf16", "layout": "channels-last"}])
def test_a_copy_is_the_record_with_its_changes(changes: dict[str, Any]) -> None:
    before = Tuning(workers=8)
    made = replace(before, **changes)
    assert made == dataclasses.replace(before, **changes) and type(made) is Tuning
    assert made is not before and before == Tuning(workers=8)


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError):
        replace(Device(kind="cpu"), cores=4)  # type: ignore[call-arg]


def test_what_a_constructor_checks_is_left_to_it() -> None:
    with pytest.raises(TypeError, match="Block is made by its constructor alone"):
        replace(Block(n_steps=1, samples=1, ns=1), n_steps=0)
