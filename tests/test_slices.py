"""Slices of the slow tests: together they are all of them, but for those that take very long."""

import argparse
from collections import Counter
from typing import Any

import pytest

from slices import kept, slice_of


class Item:
    """A test, slow or not, that may have a time limit."""

    def __init__(self, number: int):
        self.number = number
        self.marks = {"slow": pytest.mark.slow.mark} if number % 3 else {}
        if number in LIMITS:
            self.marks["timeout"] = pytest.mark.timeout(LIMITS[number]).mark

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)


LIMITS = {3: 3600, 4: 900, 5: 3600}


def test_each_slow_test_is_in_one_slice_and_all_others_in_each() -> None:
    items: Any = [Item(number) for number in range(31)]
    slices = [kept(items, slice_of(f"{first}/4")) for first in range(4)]
    counts = Counter(item.number for part in slices for item in part)
    assert counts == {number: 1 if number % 3 else 4 for number in range(31) if number != 5}
    assert max(map(len, slices)) - min(map(len, slices)) <= 1
    assert all([item.number for item in part] == sorted(item.number for item in part) for part in slices)


@pytest.mark.parametrize("text", ["4/4", "-1/4", "1", "1/", "a/b", "", "0/0"])
def test_what_is_no_slice_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected K/N"):
        slice_of(text)
