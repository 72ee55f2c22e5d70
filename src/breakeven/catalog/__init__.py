"""Shipped facts: built-in studies and the schema of a study file.

Knows nothing about what the files mean: it finds them and hands out their text.
"""

from functools import lru_cache
from importlib.resources import files

SCHEMA_NAME = "study.schema.json"


@lru_cache(maxsize=1)
def study_names() -> tuple[str, ...]:
    """Names of the built-in studies, in alphabetical order."""
    here = files(__name__) / "studies"
    return tuple(
        sorted(item.name.removesuffix(".yaml") for item in here.iterdir() if item.name.endswith(".yaml"))
    )


def study_text(name: str) -> str:
    """The YAML text of a built-in study. KeyError for a name that is not one of `study_names`."""
    if name not in study_names():
        raise KeyError(name)
    return (files(__name__) / "studies" / f"{name}.yaml").read_text(encoding="utf-8")


def schema_text() -> str:
    """The JSON Schema of a study file, as shipped for editors."""
    return (files(__name__) / SCHEMA_NAME).read_text(encoding="utf-8")
