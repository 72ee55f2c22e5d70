"""The one loop that reads a clock around user work, its stopping rules, and probes that observe meanwhile.

Knows nothing about frameworks, studies or files.
"""

from breakeven.timing.building import built
from breakeven.timing.calls import Calls, sample_calls, sample_inference
from breakeven.timing.clocks import Clock, elapsed, resolution_ns
from breakeven.timing.epochs import Run, train_epochs
from breakeven.timing.loop import Samples, sample_training
from breakeven.timing.parts import Parts
from breakeven.timing.peaks import Reached, sample_peak
from breakeven.timing.plan import MOST_CALLS, Plan, Progress
from breakeven.timing.profiling import Profiled, profile_steps
from breakeven.timing.watching import Probe

__all__ = [
    "MOST_CALLS",
    "Calls",
    "Clock",
    "Parts",
    "Plan",
    "Probe",
    "Profiled",
    "Progress",
    "Reached",
    "Run",
    "Samples",
    "built",
    "elapsed",
    "profile_steps",
    "resolution_ns",
    "sample_calls",
    "sample_inference",
    "sample_peak",
    "sample_training",
    "train_epochs",
]
