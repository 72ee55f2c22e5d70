"""At which numbers of processes a case might have got more: read from the study lines of its file.

Knows nothing about intervals or about how many processes there are.
"""

from collections.abc import Iterable
from typing import TypeGuard

from breakeven.records.lines import StudyLine
from breakeven.stats import looks_between

MOST = 10_000
"""Processes beyond which no study is believed."""


def full_looks_of(studies: Iterable[StudyLine], case_id: str) -> tuple[int, ...]:
    """The same of whole runs: a study makes as many as it says, an edited one may have asked for more."""
    return _looks(studies, case_id, "full_replicates", "full_replicates")


def looks_of(studies: Iterable[StudyLine], case_id: str) -> tuple[int, ...]:
    """The numbers of processes at which it was decided whether this case gets more, ascending.

    One, where the study fixed it beforehand (`replicates` equal to `max_replicates`). Every study line that
    has the case counts: a study that was edited to ask for more, once its intervals were seen, added
    processes too. A number below what an earlier study made anyway was never decided at. Empty where no study
    tells.
    """
    return _looks(studies, case_id, "replicates", "max_replicates")


def _looks(studies: Iterable[StudyLine], case_id: str, first_key: str, most_key: str) -> tuple[int, ...]:
    looks: set[int] = set()
    floor = 0
    for line in studies:
        first, most = line.study.get(first_key), line.study.get(most_key)
        if case_id not in line.case_ids or not _count(first) or not _count(most):
            continue
        first, most = min(first, MOST), min(most, MOST)
        floor = max(floor, first)
        looks |= {look for look in looks_between(first, max(first, most)) if look >= floor}
        looks.add(floor)
    return tuple(sorted(looks))


def _count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
