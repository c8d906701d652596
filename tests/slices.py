"""Slices of the slow tests: continuous integration runs one with each commit, and after some commits all of them.

And the cases of wide sweeps, of which each so-manieth is among the fast tests.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import pytest

LONG = 2
"""Minutes: slow tests that say that they take longer are in no slice, for some take an hour; `make slow` runs them."""

LIMIT = 30
"""Minutes after which a slow test has failed, or three times as many as it says that it takes: machines may be busy."""

Slice = tuple[int, int]
"""K and N: each N-th test from the K-th on."""


def slice_of(text: str) -> Slice:
    """Return the slice that "K/N" names."""
    first, _, step = text.partition("/")
    if not (first.isdecimal() and step.isdecimal() and int(first) < int(step)):
        raise argparse.ArgumentTypeError(f"expected K/N with 0 ≤ K < N, such as 3/40; got {text!r}")
    return int(first), int(step)


def kept(items: Sequence[pytest.Item], part: Slice) -> list[pytest.Item]:
    """Return all tests that are not slow, and a slice of the slow ones that do not take very long.

    Neighbours, which take about as long, go to different slices.
    """
    first, step = part
    slow = {item: minutes for item in items if (minutes := minutes_of(item)) is not None}
    short = [item for item, minutes in slow.items() if minutes <= LONG]
    left_out = slow.keys() - set(short[first::step])
    return [item for item in items if item not in left_out]


def thin_out(items: Sequence[pytest.Item]) -> None:
    """Leave to the fast tests the first of each so many cases of a sweep, and one of each value of its parameters."""
    sweeps: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sweep") and not item.get_closest_marker("slow"):
            sweeps[item.nodeid.partition("[")[0]].append(item)
    for cases in sweeps.values():
        _thin_out(cases, cases[0].get_closest_marker("sweep"))


def _thin_out(cases: Sequence[pytest.Item], sweep: pytest.Mark | None) -> None:
    assert sweep is not None
    values = [_values(case.callspec.params) for case in cases]  # pyright: ignore[reportAttributeAccessIssue]
    counts = Counter(value for several in values for value in several)
    chosen = range(0, len(cases), sweep.args[0])
    seen = {value for number in chosen for value in values[number]}
    for number, case in enumerate(cases):
        # a value of one case alone is no axis of the sweep
        unseen = {value for value in values[number] - seen if counts[value] > 1}
        if number not in chosen and not unseen:
            case.add_marker("slow")
        seen |= unseen


def _values(parameters: Mapping[str, object]) -> set[tuple[str, int]]:
    """Return the values of parameters, by their identity: some cannot be hashed, and cases share them."""
    return {(name, id(value)) for name, value in parameters.items()}


def minutes_of(item: pytest.Item) -> float | None:
    """Return how many minutes a slow test says that it takes, 0 where it says nothing; None of all others."""
    return max((mark.kwargs.get("minutes", 0) for mark in item.iter_markers("slow")), default=None)


def be_patient(items: Sequence[pytest.Item]) -> None:
    """Give slow tests time enough on a busy machine."""
    for item in items:
        if (minutes := minutes_of(item)) is not None and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(60 * max(LIMIT, 3 * minutes)))
