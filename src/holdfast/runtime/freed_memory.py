"""Keep the memory of freed tensors, which the C library would give back, and get again page by page for the next."""

import os
import sys

KEPT = 2**30
"""Bytes that are kept at the end of the heap, and of the largest tensor that is made in it."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory for what this process computes next; return whether it does.

    A step of an attack frees all activations and makes them anew. glibc takes each page of these from the system again,
    which is up to a fifth of the time of a step on a CPU. Only glibc is told, and nothing where the environment says
    how it should allocate (MALLOC_..., GLIBC_TUNABLES).

    Source: mallopt(3).

    Example:
        >>> keep_freed_memory() in (True, False)
        True
    """
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if not sys.platform.startswith("linux") or chosen:
        return False
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and all(mallopt(key, KEPT) == 1 for key in (_TRIM_THRESHOLD, _MMAP_THRESHOLD))
