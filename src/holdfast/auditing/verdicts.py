"""What checks say of an encoder: judged once, and kept, because a check may make encoder passes of its own."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from holdfast.auditing import record as entries
from holdfast.auditing.copied import readable_by
from holdfast.auditing.session import Session
from holdfast.core import Check, registry
from holdfast.runtime.privacy import public
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.record import CheckEntry
from holdfast.storage.record_file import add_seal, unbroken
from holdfast.storage.run_folder import Store, digest


def verdict_of(check: Check, session: Session, store: Store) -> CheckEntry:
    """Return the verdict of a check and its own passes; one that made passes is kept, and read by later rounds."""
    file = _file(check, session)
    kept: Any = store.read_json(file) if check.lasts else None
    if unbroken(kept):
        return _entry(check, kept["verdict"])
    before = session.encoder.passes
    judged = asdict(check.judge(readable_by(check, session)))
    passes = session.encoder.passes - before
    verdict = public(as_json({**judged, "passes": entries.passes_entry(passes)}))
    if check.lasts and passes.total:
        store.write_json(file, add_seal({"verdict": verdict}))
    return _entry(check, verdict)


def _entry(check: Check, verdict: Mapping[str, Any]) -> CheckEntry:
    """Return the entry of a check in the record."""
    return read_json({"title": check.title, "consequence": check.consequence, **verdict}, CheckEntry)


def _file(check: Check, session: Session) -> str:
    """Return the file of a verdict; its name says all that decides it."""
    extents = [session.split.extent(observation) for observation in check.prerequisites()]
    return f"cache/checks/{digest([session.decisive, registry.spec(check), extents])}.json"
