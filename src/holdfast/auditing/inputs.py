"""What an audit's answer depends on beside its plan and installed code: files, as far as its parts know them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.auditing.prepare import PLACES, PreparedAudit
from holdfast.core import registry
from holdfast.sources.encoders import files_of
from holdfast.storage.receipt import Heard, write_receipt
from holdfast.storage.record import Record
from holdfast.storage.record_file import PLAN, RECORD, REPORT
from holdfast.storage.run_folder import files_read


def inputs_of(audit: PreparedAudit) -> list[Path] | None:
    """Return the files that an audit's encoders and images are made of, and folders of which the names count.

    None where they are not known: of encoders and images that are open already, of code of others, of weights from a
    hub, of parts of your own or that read files, of a series, and where images were left out.
    """
    plan = audit.plan
    parts = registry.spec((*plan.measures, *plan.checks))
    if audit.encoders or audit.source or audit.training or plan.series or files_read(parts) or not registry.all_own():
        return None
    surrogates = {observation.surrogate for observation in plan.observations if observation.surrogate}
    images = filter(None, (audit.images.tested, audit.images.train))
    known: list[Iterable[Path] | None] = [files_of(spec) for spec in (*plan.encoders, *sorted(surrogates))]
    known += [each.files for each in images]
    return None if None in known else [path for paths in known if paths is not None for path in paths]


def leave_receipt(
    audit: PreparedAudit,
    record: Record,
    request: Any,
    heard: Heard = lambda done, total: None,
) -> None:
    """Leave the receipt of a request in the run folder, if its answer is complete and what it depends on is known."""
    ended = "complete" if record.run.rounds is None else record.run.rounds.ended
    if record.failures or ended not in ("complete", "until") or (inputs := inputs_of(audit)) is None:
        return
    files = (RECORD, PLAN, PLACES, REPORT, *record.files)
    write_receipt(audit.store.files, request, inputs, files, audit.started.timestamp(), heard)
