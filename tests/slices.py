"""Slices of the slow tests: continuous integration runs one with each commit, and after some commits all of them."""

import argparse
from collections.abc import Sequence

import pytest

LONG = 900
"""Seconds: tests whose own limit is larger are in no slice, for some take an hour; `make slow` runs them."""

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
    slow = [item for item in items if item.get_closest_marker("slow")]
    short = [item for item in slow if not (limit := item.get_closest_marker("timeout")) or limit.args[0] <= LONG]
    left_out = set(slow) - set(short[first::step])
    return [item for item in items if item not in left_out]
