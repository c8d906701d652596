"""The gate: a run held against requirements, and against an earlier run."""

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from holdfast.comparison.baseline import couples
from holdfast.comparison.records import Run
from holdfast.config.requirements import judge
from holdfast.report.numbers import decapitalise
from holdfast.runtime.errors import Missing
from holdfast.runtime.exit_status import ExitStatus
from holdfast.runtime.listener import Listener, Silent
from holdfast.storage.gate import Gate
from holdfast.storage.index_upgrade import IndexUpgrade
from holdfast.storage.standing import find_bars
from holdfast.workflows.index_gate import IndexQuestions, hold_index, of_index


def hold(
    run: Run,
    requirements: Collection[str] = (),
    baseline: Run | None = None,
    *,
    allow_drop: Collection[str] = (),
    match: Mapping[str, str] | Iterable[str] = (),
    encoders: Collection[str] = (),
    strict: bool = False,
    index: IndexQuestions | None = None,
    listener: Listener | None = None,
) -> Gate:
    """Return what the gate found."""
    if baseline is None and (allow_drop or match):
        raise Missing("expected a baseline beside what may be lost against it, got none; add --baseline RUN")
    if baseline is None and not requirements and not index:
        raise Missing(
            "expected at least one requirement, or a baseline, got none; add --require 'breakaway_risk < 5 %' or "
            "--baseline RUN"
        )
    shared = of_index(run, requirements)
    if baseline is None and (shared or index):
        raise Missing(
            f"expected a baseline to compare {'the canaries' if index else repr(shared[0])} with, got none; add "
            "--baseline RUN"
        )
    own = [text for text in requirements if text not in shared]
    findings = judge(run.record.encoders, own, encoders) if own else []
    compared: list[IndexUpgrade] = []
    if baseline is not None and (shared or index):
        pairs = [pair for pair in couples(run, baseline, encoders, match) if not pair[0].entry.error]
        about, compared = hold_index(pairs, shared, index or IndexQuestions(), listener or Silent())
        findings += about
    met, regression, undecided = all(finding.met for finding in findings), None, False
    if baseline is not None:
        from holdfast.comparison.regression import UNTOLD, regressions  # which bring torch

        regression = regressions(run, baseline, allow_drop, match=match, encoders=encoders)
        undecided = any(row.verdict == UNTOLD for row in regression.verdicts)
        regression = replace(regression, passed=regression.passed and not (strict and undecided))
    passed = met and (regression is None or regression.passed)
    return Gate(
        record=run.place,
        status=int(ExitStatus.DONE if passed else ExitStatus.UNMET),
        passed=passed,
        verdict="failed" if not passed else "undecided" if undecided else "passed",
        met=met,
        findings=findings,
        regression=regression,
        index=compared,
        strict=strict,
        warnings=[
            f"{encoder.name} {decapitalise(bar.called)}: {bar.finding}. {bar.meaning}"
            for encoder in run.record.encoders
            if not encoders or encoder.name in encoders
            for bar in find_bars(encoder, run.record.plan.allow)
            if bar.called
        ],
    )
