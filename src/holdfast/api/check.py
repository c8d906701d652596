"""An audit held against requirements and an earlier one, as an object."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from holdfast.api.outputs import save_text
from holdfast.api.record import Record
from holdfast.comparison.records import Run, open_run
from holdfast.report.document import Document
from holdfast.report.documents.gate import document, summarise
from holdfast.report.junit import junit
from holdfast.report.render import Shown, to_markdown
from holdfast.runtime.checked import check_arguments
from holdfast.runtime.errors import Missing
from holdfast.storage.entry import as_json
from holdfast.storage.gate import Gate
from holdfast.storage.standing import allowing, refuse_unknown
from holdfast.workflows.gate import hold
from holdfast.workflows.index_gate import IndexQuestions


class CheckResult(Shown):
    """What a record is found to be against requirements and an earlier record.

    Args:
        gate: what it is found to be.
    """

    def __init__(self, gate: Gate):
        self._gate = gate

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """What was found as JSON data."""
        return as_json(self._gate)

    @property
    def passed(self) -> bool:
        """Whether all requirements are met and nothing is shown to be worse."""
        return self._gate.passed

    @property
    def findings(self) -> tuple[Mapping[str, Any], ...]:
        """Whether each requirement is `met`, and the `reason` where it is not."""
        return tuple(self.data["findings"])

    @property
    def verdicts(self) -> tuple[Mapping[str, Any], ...]:
        """Of each score held against the baseline its `verdict`; see `holdfast.comparison.regression.regressions`."""
        # Nothing is held against a baseline that nobody gave
        return tuple(self.data["regression"]["verdicts"]) if self.data["regression"] else ()

    def markdown(self) -> str:
        """Return it as Markdown."""
        return to_markdown(summarise(self._gate))

    def junit(self, path: str | os.PathLike[str]) -> str:
        """Write it as JUnit XML, and return where it is.

        Raises:
            HoldfastError: a place that cannot be written.
        """
        return save_text(path, junit(self._gate))

    def _document(self) -> Document:
        return document(self._gate)


@check_arguments
def check(
    record: Record | str | os.PathLike[str],
    *,
    require: str | Sequence[str] = (),
    baseline: Record | str | os.PathLike[str] | None = None,
    allow_drop: str | Sequence[str] = (),
    match: Mapping[str, str] | None = None,
    encoders: str | Sequence[str] = (),
    allow: Sequence[str] = (),
    strict: bool = False,
    canaries: str | os.PathLike[str] | None = None,
    rate: float | None = None,
    threshold: float | None = None,
    divergence: str | None = None,
) -> CheckResult:
    """Hold an audit against requirements, and against an earlier one; the same as the command `holdfast check`.

    Args:
        record: the record, or its run folder.
        require: what must hold, "breakaway_risk < 5 %"; see `holdfast.config.requirements`.
        baseline: an earlier record, than which nothing may be shown to be worse.
        allow_drop: how much worse it may be, "breaking_radius 5 %", or "5 %" for all; see `holdfast.config.margins`.
        match: new names of encoders with those in the baseline; where None, equal names, or one encoder in each.
        encoders: which encoders are held; all where none is given.
        allow: checks whose failure is accepted.
        strict: whether what cannot be told does not pass.
        canaries: a CSV file of pairs that must match, or must not, whatever the encoder; see `holdfast.compare_index`.
        rate: false positives at which they are judged, a share of the pairs; 0.001 where None.
        threshold: instead, the baseline's threshold: a distance, or for `dot` an inner product.
        divergence: how representations are compared for canaries and `overlap@10`; l2 where None.

    Raises:
        HoldfastError: nothing to hold it against, audits that cannot be compared, an unknown name, or a request that
            cannot be read.
    """
    run, before = _run(record), None if baseline is None else _run(baseline)
    refuse_unknown(allow, [known.record for known in (run, before) if known is not None])
    now, earlier = (known and replace(known, record=allowing(known.record, allow)) for known in (run, before))
    assert now is not None
    if before is None and (allow_drop or match):
        raise Missing("check: expected a baseline beside allow_drop and match, got none; say baseline=RUN")
    if before is None and not require and canaries is None:
        raise Missing(
            "check: expected at least one requirement, or a baseline, got none; say require='breakaway_risk < 5 %' or "
            "baseline=RUN"
        )
    several = ([words] if isinstance(words, str) else words for words in (require, allow_drop, encoders))
    requirements, drops, names = several
    index = IndexQuestions(None if canaries is None else os.fspath(canaries), rate, threshold, divergence)
    data = hold(
        now, requirements, earlier, allow_drop=drops, match=match or {}, encoders=names, strict=strict, index=index
    )
    return CheckResult(data)


def _run(record: Record | str | os.PathLike[str]) -> Run:
    return record.run if isinstance(record, Record) else open_run(os.fspath(record))
