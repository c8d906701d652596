"""Run benchmarks, each in a fresh process: what one holds in memory or has warmed up is not there for the next."""

import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context

import torch

from benchmarks import store
from benchmarks.curve import fresh
from benchmarks.result import Result
from benchmarks.store import Run

ALONE = ("knn", "workers")
"""They use several cores, or measure time on the wall."""


STARTS = 3
"""Processes in which the short version of a benchmark is measured, where it is stored and where it seems slower."""

COUNTS = ("passes", "images", "")
"""Units of what is counted and must be equal; "x" is a ratio."""


def run(name: str) -> Run:
    """Run a benchmark; of what its short version measures, keep too what that is in processes of its own."""
    begun, clock = store.begun(), time.perf_counter()
    results = importlib.import_module(f"benchmarks.{name}").measure()
    if short_of(name):
        starts = [by_name(shortly(name)) for _ in range(STARTS)]
        results = [
            replace(row, facts={**row.facts, "starts": values})
            if (values := [start[row.name].value for start in starts if row.name in start]) and row.unit == "x"
            else row
            for row in results
        ]
    return replace(begun, results=tuple(results), seconds=time.perf_counter() - clock)


def short_of(name: str) -> Callable[[], list[Result]] | None:
    """Return the short version of a benchmark; None where there is none."""
    return getattr(importlib.import_module(f"benchmarks.{name}"), "short", None)


def shortly(name: str) -> list[Result]:
    """Run the short version of a benchmark in a process of its own, on one thread."""
    return fresh(_shortly, name)


def _shortly(name: str) -> list[Result]:
    torch.set_num_threads(1)
    short = short_of(name)
    assert short is not None
    return short()


def compared(result: Result) -> bool:
    """Return whether rows of this kind are compared: ratios and counts, no times."""
    return result.unit == "x" or result.unit in COUNTS


def by_name(results: Sequence[Result]) -> dict[str, Result]:
    """Return the rows that are compared."""
    return {result.name: result for result in results if compared(result)}


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
