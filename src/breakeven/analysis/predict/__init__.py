"""Forecasts for hardware that is not here: training rows, the model fitted to them, its validation, memory.

Knows nothing about clocks, frameworks or the look of a report.
"""

from breakeven.analysis.predict.forecasts import predict
from breakeven.analysis.predict.types import Forecast, MemoryFit, Prediction

__all__ = ["Forecast", "MemoryFit", "Prediction", "predict"]
