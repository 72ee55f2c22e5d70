"""The page on studies names every key that there is."""

import dataclasses
import re
from pathlib import Path

from breakeven.runner.schema import RecipeKeys, StudyKeys, TuningKeys
from breakeven.runtimes.sim import PROFILES

PAGE = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")


def test_every_key_is_named() -> None:
    named = set(re.findall(r"`([a-z_0-9]+)`", PAGE))
    options = {field.name for field in dataclasses.fields(PROFILES["gpu"])}
    known = {*StudyKeys.model_fields, *RecipeKeys.model_fields, *TuningKeys.model_fields, *options}
    assert known - named == set()
