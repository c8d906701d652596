"""The gate in a test: a record held against requirements and a baseline, and the findings as the test's failure."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.api.check import CheckResult
from holdfast.api.record import Record
from holdfast.runtime.errors import BadValue, Missing, unknown
from holdfast.storage.filesystem import Folder
from holdfast.storage.record_file import RECORD

KEYWORDS = ("require", "baseline", "allow_drop", "match", "encoders", "allow", "strict")
"""Of `holdfast.check`, which the mark takes too."""


class Gate:
    """Holds records to account as `holdfast.check` does, or writes them as baselines.

    Args:
        root: the folder in which paths of baselines begin: pytest's root folder.
        update: write baselines instead of comparing with them.
        tell: told in a line what came of each record.
    """

    def __init__(self, root: Path, update: bool, tell: Callable[[str], object]):
        self._root, self._update, self._tell = root, update, tell

    def __call__(self, record: Record, *, baseline: str | os.PathLike[str] | None = None, **options: Any) -> None:
        """Fail the test where a requirement is not met, or a measure is worse than the baseline allows.

        Args:
            record: of an audit.
            baseline: the run folder of an earlier audit; a path begins in pytest's root folder.
            options: require, allow_drop, strict and the others of `holdfast.check`.

        Raises:
            HoldfastError: a request that cannot be answered; a baseline that is not there.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        if not isinstance(record, Record):
            raise BadValue(f"holdfast_check: expected a record of holdfast_audit, got {record!r:.80}")
        place = None if baseline is None else self._place(baseline)
        writes = place is not None and self._update
        if writes:  # requirements have to be met all the same
            options = {key: value for key, value in options.items() if key not in ("allow_drop", "match")}
        elif place is not None and not Folder(place).exists(RECORD):
            raise Missing(
                f"expected a baseline in {place!r}, got none; write it with pytest --holdfast-update-baseline"
            )
        # What is to become a baseline is held to requirements alone, where there are any
        if not writes or options.get("require"):
            result = holdfast.check(record, baseline=None if writes else place, **options)
            if not result.passed:
                pytest.fail(f"{result}\nthe run folder: {record.folder}")
            self._tell(_brief(result))
        if place is not None and writes:
            record.save(place, overwrite=True, pictures=False)
            self._tell(f"wrote the baseline {place}")

    def hold_all(self, values: Iterable[Any], **options: Any) -> None:
        """Hold all records among some values; those of a marked test.

        Args:
            values: what the test has audited, and what its fixtures gave it.
            options: those of the mark.
        """
        # Each once: a test and its fixtures may hold the same record
        records = list({id(value): value for value in values if isinstance(value, Record)}.values())
        try:
            _check_mark(options, len(records))
            for record in records:
                self(record, **options)
            return
        except (holdfast.HoldfastError, pytest.fail.Exception) as error:
            failure = str(error)
        pytest.fail(failure, pytrace=False)  # there is no line of the test to show

    def _place(self, baseline: str | os.PathLike[str]) -> str:
        place = os.fspath(baseline)
        # As short as the folder that pytest runs in allows; a URL stays
        return place if "://" in place else os.path.relpath(self._root / place)


def _check_mark(options: Mapping[str, Any], records: int) -> None:
    """Refuse a mark that says nothing, or what cannot be done."""
    for name in options:
        if name not in KEYWORDS:
            raise unknown("keyword of the mark holdfast", name, KEYWORDS)
    if not records:
        raise Missing(
            "a test marked holdfast: expected an audit by holdfast_audit, got none; audit in the test or in a fixture "
            "that it asks for"
        )
    if options.get("baseline") is not None and records > 1:
        raise BadValue(
            f"a test marked holdfast with a baseline: expected one audit, got {records}; say "
            "holdfast_check(record, baseline=...) for each"
        )


def _brief(result: CheckResult) -> str:
    """Return how many requirements are met, and how many verdicts there are of each kind."""
    met = sum(finding["met"] for finding in result.findings)
    counts = Counter(row["verdict"] for row in result.verdicts)
    requirements = [f"{met} of {len(result.findings)} requirements met"] if result.findings else []
    return ", ".join([*requirements, *(f"{count} {verdict}" for verdict, count in counts.items())])
