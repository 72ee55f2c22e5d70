"""How long compiling and capturing take, before the first step.

Knows nothing about steps.
"""

import time
from collections.abc import Mapping
from typing import Any

from breakeven.runtimes import Prepared
from breakeven.timing.clocks import Clock, timed_ns


def built(prepared: Prepared, *, clock: Clock | None = None) -> dict[str, Any] | None:
    """Builds what the case compiles or captures: `ns`, synchronised at both edges, and the runtime's facts.

    None where the case has nothing to build.
    """
    if prepared.build is None:
        return None
    facts: list[Mapping[str, Any]] = []
    build = prepared.build
    clock = clock or prepared.clock or time.perf_counter_ns
    ns = timed_ns(clock, prepared.sync, lambda: facts.append(build()))
    return {"ns": ns, **facts[0]}
