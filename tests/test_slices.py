"""Slices of the slow tests: together they are all of them, but for those that take very long."""

import argparse
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from slices import be_patient, kept, slice_of, thin_out


class Item:
    """A test, slow or not, that may say how many minutes it takes."""

    def __init__(self, number: int):
        self.number, self.limit = number, 60 if number == 8 else None
        self.slow = [pytest.mark.slow.mark, pytest.mark.slow(minutes=MINUTES.get(number, 0)).mark] if number % 3 else []

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return self.slow if name == "slow" else []

    def get_closest_marker(self, name: str) -> int | None:
        return self.limit if name == "timeout" else None

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.limit = mark.args[0]


MINUTES = {4: 2, 5: 20}


def test_each_slow_test_is_in_one_slice_and_all_others_in_each() -> None:
    items: Any = [Item(number) for number in range(31)]
    slices = [kept(items, slice_of(f"{first}/4")) for first in range(4)]
    counts = Counter(item.number for part in slices for item in part)
    assert counts == {number: 1 if number % 3 else 4 for number in range(31) if number != 5}
    assert max(map(len, slices)) - min(map(len, slices)) <= 1
    assert all([item.number for item in part] == sorted(item.number for item in part) for part in slices)


def test_slow_tests_have_time_on_a_busy_machine() -> None:
    items: Any = [Item(number) for number in range(9)]
    be_patient(items)
    assert [item.limit for item in items] == [None, 1800, 1800, None, 1800, 3600, None, 1800, 60]


class Case:
    """A case of a test, with the values of its parameters."""

    def __init__(self, test: str, every: int | None = 3, slow: bool = False, **params: int):
        self.nodeid, self.callspec = f"{test}[{params}]", SimpleNamespace(params=params)
        self.marks = {"sweep": every and pytest.mark.sweep(every).mark, "slow": pytest.mark.slow.mark if slow else None}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks[name]

    def add_marker(self, name: str) -> None:
        self.marks[name] = getattr(pytest.mark, name).mark


def fast(*items: Any) -> list[int]:
    thin_out(items)
    return [number for number, item in enumerate(items) if not item.get_closest_marker("slow")]


def test_of_a_sweep_each_so_manieth_case_is_fast() -> None:
    mixed = [Case(test, every, case=case) for case in range(7) for test, every in (("a", 3), ("b", None))]
    assert fast(*mixed) == [0, 1, 3, 5, 6, 7, 9, 11, 12, 13]  # all of the other test
    assert fast(*(Case("a", slow=case < 2, case=case) for case in range(7))) == [2, 5]


def test_of_a_sweep_each_value_is_in_a_fast_case() -> None:
    """Each third of cases in rows of three would be of one column alone."""
    assert fast(*(Case("a", row=row, column=column) for row in range(3) for column in range(3))) == [0, 1, 2, 3, 6]


@pytest.mark.parametrize("text", ["4/4", "-1/4", "1", "1/", "a/b", "", "0/0"])
def test_what_is_no_slice_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected K/N"):
        slice_of(text)
