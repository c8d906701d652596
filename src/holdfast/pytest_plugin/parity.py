"""Parity in a test: two builds of one network, and what makes them differ as the test's failure."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.api.compare_index import IndexRecord


class Parity:
    """Compares two builds of one network as `holdfast parity` does.

    Args:
        tell: told in a line what came of it.
    """

    def __init__(self, tell: Callable[[str], object]):
        self._tell = tell

    def __call__(self, old: Any, new: Any, data: Any, **options: Any) -> IndexRecord:
        """Return the record; fail the test where a requirement is not met, or a canary is broken.

        Args:
            old: what the build was made of: a network, a function, a spec.
            new: the build.
            data: images, see `holdfast.compare_index`.
            options: the others of `holdfast.compare_index`: require, images, k, canaries.

        Raises:
            HoldfastError: a request that cannot be answered.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        record = holdfast.compare_index(old, new, data, quiet=True, same=True, **options)
        if record.status:
            pytest.fail(str(record))
        self._tell("still the same encoder")
        return record
