"""Freed memory: kept for the next step, or given back to the system."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

KEPT = 2**30
"""Bytes that are kept at the end of the heap, and of the largest tensor that is made in it."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory for what this process computes next; return whether it does.

    A step of an attack frees all activations and makes them anew. glibc takes each page of these from the system again,
    which is up to a fifth of the time of a step on a CPU. Only glibc is told, and nothing where the environment says
    how it should allocate (MALLOC_..., GLIBC_TUNABLES). pyarrow, if it is not imported yet, takes its memory from there
    too: what it brings for itself keeps 20 MiB more when a table is written.

    Source: mallopt(3).

    Example:
        >>> keep_freed_memory() in (True, False)
        True
    """
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    mallopt = None if chosen else _of_library("mallopt")
    # Both thresholds: memory above the second one is mapped, and goes back at once whatever the first says
    if mallopt is None or not all(mallopt(key, KEPT) == 1 for key in (_TRIM_THRESHOLD, _MMAP_THRESHOLD)):
        return False
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    return True


def give_back_freed_memory() -> bool:
    """Give all freed memory back to the system, also what lies between what is in use; return whether some was.

    For the end of a stage that took much more than the next one finds a use for: arrays of another size do not fit into
    its holes. Only glibc is told.

    Source: malloc_trim(3).

    Example:
        >>> give_back_freed_memory() in (True, False)
        True
    """
    trim = _of_library("malloc_trim")
    return trim is not None and trim(0) == 1


def _of_library(name: str) -> Any:
    """Return a function of the C library; None where it has none: musl, other systems."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    # None: the process itself, which the C library is part of
    return getattr(ctypes.CDLL(None), name, None)


@contextmanager
def many_objects() -> Iterator[None]:
    """Make very many small objects inside that last; to look for others again and again would take half of the time."""
    wanted = gc.isenabled()  # it may be off already
    gc.disable()
    try:
        yield
    finally:
        if wanted:
            gc.enable()
