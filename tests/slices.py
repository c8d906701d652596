"""Slices of the slow tests: continuous integration runs one for each commit, and after some commits has run all."""

import argparse
from collections.abc import Sequence

import pytest

Slice = tuple[int, int]
"""K and N: each N-th test from the K-th on."""


def slice_of(text: str) -> Slice:
    """Return the slice that "K/N" names."""
    first, _, step = text.partition("/")
    if not (first.isdecimal() and step.isdecimal() and int(first) < int(step)):
        raise argparse.ArgumentTypeError(f"expected K/N with 0 ≤ K < N, such as 3/20; got {text!r}")
    return int(first), int(step)


def kept(items: Sequence[pytest.Item], part: Slice) -> list[pytest.Item]:
    """Return all tests that are not slow, and a slice of the slow ones.

    Neighbours, which take about as long, go to different slices.
    """
    first, step = part
    slow = [item for item in items if item.get_closest_marker("slow")]
    left_out = set(slow) - set(slow[first::step])
    return [item for item in items if item not in left_out]
