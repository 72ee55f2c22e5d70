"""Measures how fast deep-learning models train and infer on CPUs and GPUs, and says why."""

__version__ = "0.1.0"
