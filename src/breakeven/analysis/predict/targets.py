"""The devices that a forecast is asked for, by the names that people give them.

Knows nothing about forecasts.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from breakeven.catalog.cpus import Cpu, cpu_named, cpus
from breakeven.catalog.gpus import Gpu, gpu_named, gpus
from breakeven.errors import UserError


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A device of the catalog; `note` where the name left a choice."""

    device: Gpu | Cpu
    note: str = ""


def targets(names: str) -> tuple[Target, ...]:
    """The devices of `L4, RTX 4090, A100`. UserError for one that the catalog does not have."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise UserError("--for needs the name of a GPU or CPU: breakeven list gpus")
    found = [_target(name) for name in wanted]
    return tuple({target.device.name: target for target in found}.values())


def _target(name: str) -> Target:
    exact = gpu_named(name) or cpu_named(name)
    if exact is not None:
        return Target(device=exact)
    asked = _words(name)
    boards = [gpu for gpu in gpus() if _inside(asked, _words(gpu.name))]
    if boards:
        # The board with most memory traffic, the later of equals: what a name without its form usually means.
        best = max(boards, key=lambda gpu: (gpu.bandwidth_gb_per_s, gpu.release_date))
        others = [gpu.name for gpu in boards if gpu is not best]
        return Target(device=best, note=_chosen(name, best.name, others))
    chips = [cpu for cpu in cpus() if _inside(asked, _words(cpu.name))]
    if chips:
        return Target(device=chips[0], note=_chosen(name, chips[0].name, [c.name for c in chips[1:]]))
    every = [gpu.name for gpu in gpus()] + [cpu.name for cpu in cpus()]
    near = difflib.get_close_matches(name, every, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "breakeven list gpus and list cpus have all"
    raise UserError(f"no GPU or CPU named {name!r} in the catalog: {hint}")


def _chosen(name: str, best: str, others: Sequence[str]) -> str:
    return f"{name} is taken as {best}; there is also {', '.join(others)}" if others else ""


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9+]+", name.casefold())


def _inside(asked: Sequence[str], words: Sequence[str]) -> bool:
    """Whether all words asked for stand in the name, in order: L4 is not in L40."""
    place = iter(words)
    return all(word in place for word in asked)
