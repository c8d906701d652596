"""Run a plan: in one go, or in rounds."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from holdfast.auditing.execute import INLINE
from holdfast.auditing.plan import Plan
from holdfast.auditing.prepare import PreparedAudit, prepare
from holdfast.auditing.progress_file import ProgressFile
from holdfast.auditing.rounds import Told, run_rounds
from holdfast.auditing.run_prepared import run_prepared
from holdfast.core import Encoder, ImageSource
from holdfast.core.engine import Engine
from holdfast.runtime.listener import Listener
from holdfast.storage.record import Record


def run_audit(
    plan: Plan,
    folder: str | Path,
    *,
    encoders: Mapping[str, Encoder] | None = None,
    source: ImageSource | None = None,
    training: ImageSource | None = None,
    engine: Engine = INLINE,
    listener: Listener | None = None,
    command: str = "",
    overwrite: bool = False,
    some: bool = False,
    told: Told = lambda record: None,
) -> Record:
    """Run an audit and return its record, which is also written to `folder/record.json`.

    A part that fails is recorded with its error and the audit goes on; a killed audit, run again, continues. One with a
    budget, or that says until when, is made in rounds, see `run_rounds`. While it is at work a local folder holds
    `progress.json`, see `ProgressFile`.
    """
    options = {"overwrite": overwrite, "engine": engine, "some": some, "listener": listener}
    return carry_out(prepare(plan, folder, encoders, source, training, **options), engine, command, told)


def carry_out(
    audit: PreparedAudit, engine: Engine = INLINE, command: str = "", told: Told = lambda record: None
) -> Record:
    """Run an audit that is prepared, and return its record, see `run_audit`."""
    with closing(audit.claim), ProgressFile(audit) as progress:
        audit = replace(audit, listener=progress)
        if not audit.plan.in_rounds:
            return run_prepared(audit, engine, command)

        def report_round(record: Record) -> None:
            progress.add_round(record)
            told(record)

        return run_rounds(audit, engine, command, report_round)
