"""What is looked at, the most telling first: what is wrong before what is fast, what many use before what few do."""

import re
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.gpu import (
    audits,
    bank,
    certificates,
    correctness,
    count_waits,
    photos,
    precision,
    throughput,
    training,
)
from benchmarks.gpu.device import Device
from benchmarks.gpu.task import Task

ORDER: tuple[Callable[[Device], Iterator[Task]], ...] = (
    correctness.first,
    certificates.tasks,
    partial(photos.tasks, ways=photos.EAGER),
    audits.whole,
    throughput.draws,
    throughput.learners,
    training.steps,
    bank.tasks,
    audits.memory,
    count_waits.tasks,
    audits.together,
    partial(photos.tasks, ways=photos.COMPILED),
    throughput.attacks,
    correctness.others,
    precision.tasks,
    training.losses,
    throughput.certifiers,
)

SECTIONS = {
    "correctness": "scores on digits and of two random networks beside the CPU's",
    "certificates": "bounds in float64 beside the CPU's",
    "steps": "a step of PGD on photos beside the bare network",
    "audits": "whole audits of photos beside their bare passes",
    "loops": "all other loops beside the bare network",
    "training": "a step beside a bare loop, losses beside the CPU's",
    "bank": "the nearest of a large bank",
    "memory": "audits where memory is short",
    "waits": "how often the host waits for the device",
    "processes": "several processes on one card",
    "precision": "what reduced precision changes",
}
"""Name -> what it asks."""


def tasks(device: Device, only: frozenset[str] = frozenset(SECTIONS), names: str = "") -> list[Task]:
    """Return the tasks of some sections whose names match an expression, in order."""
    every = (task for make in ORDER for task in make(device))
    return [task for task in every if task.section in only and re.search(names, task.name)]
