"""torch.compile around a function of tensors, and what it did: whether its kernels came from a cache.

Knows nothing about captured graphs or about time.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch

from breakeven.errors import Unsupported
from breakeven.runtimes import BUILD_CACHE

F = TypeVar("F", bound=Callable[..., Any])

CACHE_DIR = "TORCHINDUCTOR_CACHE_DIR"
CACHES = {"inductor": "fxgraph_cache", "aot_autograd": "autograd_cache"}
"""torch._dynamo's groups of counters -> the prefix of their counts of hits and misses."""


def compiled(function: F, mode: str) -> F:
    """The function compiled whole, for the shapes it is first called with: a break in it is an error.

    A cache that the user has chosen for torch stays; else it is that of BUILD_CACHE, where one is named.
    Raises Unsupported without a C++ compiler: torch's own needs one, for a GPU as well.
    """
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    _choose_cache()
    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        raise Unsupported("torch.compile needs a C++ compiler: install g++, or name one in CXX") from None
    return cast(F, torch.compile(function, mode=mode, fullgraph=True, dynamic=False))


@contextmanager
def freezing() -> Iterator[None]:
    """What is compiled inside, without gradients, has weights that are constants: folded and laid out once.

    As an option of torch.compile itself (torch 2.13) it fails on quantised convolutions.
    """
    import torch._inductor.config

    with torch._inductor.config.patch(freezing=True), warnings.catch_warnings():
        # Of torch 2.13's own lowering of quantised layers.
        warnings.filterwarnings("ignore", message="To copy construct from a tensor", category=UserWarning)
        # FP32 is what was asked for; that TF32 would be faster is another case's business.
        warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores", category=UserWarning)
        yield


def _choose_cache() -> None:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    folder = os.environ.get(BUILD_CACHE)
    # Importing torch may have set the variable to its own default already.
    if folder and os.environ.get(CACHE_DIR) in (None, default_cache_dir()):
        os.environ[CACHE_DIR] = folder


@contextmanager
def noting_caches() -> Iterator[dict[str, Any]]:
    """`cache_state` of what is compiled inside: cold (all made), warm (all found), mixed, null (not told)."""
    found: dict[str, Any] = {}
    before = _caches()
    yield found
    hits, misses = (now - then for now, then in zip(_caches(), before, strict=True))
    found["cache_state"] = {(False, False): None, (True, False): "warm", (False, True): "cold"}.get(
        (hits > 0, misses > 0), "mixed"
    )
    found |= {"cache_hits": hits, "cache_misses": misses}


def _caches() -> tuple[int, int]:
    from torch._dynamo.utils import counters

    groups: Mapping[str, Mapping[str, int]] = counters
    hits, misses = (
        sum(groups[group][f"{prefix}_{what}"] for group, prefix in CACHES.items()) for what in ("hit", "miss")
    )
    return hits, misses
