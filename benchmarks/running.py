"""Run benchmarks, each in a fresh process: what one holds in memory or has warmed up is not there for the next."""

import importlib
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context

from benchmarks import store
from benchmarks.store import Run

ALONE = ("knn", "workers")
"""They use several cores, or measure time on the wall."""


def run(name: str) -> Run:
    """Run a benchmark."""
    begun, clock = store.begun(), time.perf_counter()
    results = tuple(importlib.import_module(f"benchmarks.{name}").measure())
    return replace(begun, results=results, seconds=time.perf_counter() - clock)


def measure(names: tuple[str, ...], jobs: int = 1) -> Iterator[tuple[str, Run]]:
    """Run benchmarks, each in a process of its own, and yield each as it ends; one that fails says so and is left out.

    Args:
        names: of benchmarks.
        jobs: how many at a time.
    """
    beside = [name for name in names if name not in ALONE or jobs == 1]
    for together, at_once in ((beside, jobs), ([name for name in names if name not in beside], 1)):
        with ProcessPoolExecutor(at_once, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
            running = {processes.submit(run, name): name for name in together}
            for ended in as_completed(running):
                name = running[ended]
                if (error := ended.exception()) is not None:
                    print(f"{name} FAILED: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                    continue
                yield name, ended.result()
