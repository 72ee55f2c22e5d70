"""What a simulated device does at best, so that shares and floors have a truth to be compared with.

Knows nothing about models or steps.
"""

from collections.abc import Mapping

from breakeven.errors import Unsupported
from breakeven.runtimes import Peak
from breakeven.runtimes.sim.profile import Profile

UNITS: Mapping[str, str] = {
    "matmul_fp32": "tflop_per_s",
    "matmul_bf16": "tflop_per_s",
    "copy": "gb_per_s",
}
CALL_NS = 1_000_000.0
"""Virtual time of one call."""


def peak(profile: Profile, name: str) -> Peak:
    """Work whose rate is the planted one; that of products as at the best layout, compiled."""
    if profile.gb_per_s is None or name not in UNITS:
        raise Unsupported(f"no {name} is planted in this device: give it gb_per_s")
    best = profile.gflops * profile.channels_last * profile.compile
    rates = {"matmul_fp32": best, "matmul_bf16": best * profile.bf16, "copy": profile.gb_per_s}
    now = [0.0]

    def call() -> None:
        now[0] += CALL_NS

    def clock() -> int:
        now[0] += 1  # a reading takes one, so that the clock is seen to move
        return int(now[0])

    return Peak(
        call=call, sync=lambda: None, amount=rates[name] * CALL_NS, conditions={"planted": True}, clock=clock
    )
