"""TensorFlow and Keras, imported with the settings that they read only then.

Knows nothing else: every module of this runtime that needs one of them takes it from here.
"""

import os
from typing import Any

from breakeven.errors import Unsupported

# Keras reads its backend once, from the environment or from a file of the user's.
os.environ["KERAS_BACKEND"] = "tensorflow"
# Read when a GPU is first opened: else TensorFlow takes nearly all of its memory at once.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
# Notices, not errors: each process would write a screen of them.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf

__all__ = ["keras", "tf", "xspace_message"]


def xspace_message() -> Any:
    """An empty message of the kind that its profiler writes. Raises Unsupported where none is shipped."""
    try:
        from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace
    except ImportError:
        raise Unsupported(f"tensorflow {tf.__version__} ships no reader of its profiles") from None
    return XSpace()
