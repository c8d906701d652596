"""Run a plan, to its end."""

from collections import deque
from collections.abc import Mapping
from pathlib import Path

from holdfast.auditing.execute import INLINE
from holdfast.auditing.plan import Plan
from holdfast.auditing.prepare import prepare
from holdfast.auditing.rounds import run_rounds
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
) -> Record:
    """Run an audit and return its record, which is also written to `folder/record.json`.

    A part that fails is recorded with its error and the audit goes on; a killed audit, run again, continues. One with a
    budget, or that says until when, is made in rounds, see `run_rounds`.
    """
    options = {"overwrite": overwrite, "engine": engine, "some": some, "listener": listener}
    records = run_rounds(prepare(plan, folder, encoders, source, training, **options), engine, command)
    (record,) = deque(records, maxlen=1)
    return record
