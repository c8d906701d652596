"""From the parts of an audit to its record: shards that several processes made are brought together and scored."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from holdfast.auditing.execute import INLINE
from holdfast.auditing.partition import mark_of
from holdfast.auditing.plan import plan_of
from holdfast.auditing.prepare import CACHE, PLACES, PreparedAudit, prepare
from holdfast.auditing.rounds import run_round
from holdfast.auditing.work import OpenedEncoder, Step, Worker, WorkItem
from holdfast.core import HoldfastError
from holdfast.core.engine import Engine
from holdfast.runtime.doors import read_bytes
from holdfast.runtime.errors import Mismatch, Missing, UnreadableRecord, first_line, os_reason
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import restore_paths
from holdfast.sources.trust import demand_trust
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import Record
from holdfast.storage.record_file import PLAN
from holdfast.storage.run_folder import Store
from holdfast.storage.seal import SHARD, unbroken


def merge_parts(
    place: str | Path,
    others: Sequence[str | Path] = (),
    *,
    complete: bool = False,
    overwrite: bool = False,
    trust: bool = False,
    engine: Engine = INLINE,
    listener: Listener | None = None,
    command: str = "",
) -> Record:
    """Score what parts of an audit have made, and return the record."""
    # Copy the shards of all parts into one run folder
    listener = listener or Silent()
    if not others:
        _part_files(Folder(place))  # first, or a typo would create a folder
    listener.stage("bringing the parts together")
    parts = [(Folder(part), *_part_files(Folder(part))) for part in others]
    store = Store(place)
    store.forget_damaged(CACHE)  # another folder may have them whole
    present = set(store.names(CACHE))
    for part in parts:
        _copy(store, present, *part)

    # Read the plan that they share
    stored, stored_places = store.read_json(PLAN), store.read_json(PLACES)
    if not unbroken(stored) or not stored["plan"]:
        raise UnreadableRecord(
            f"expected parts of an audit (made with --shard), found none or a damaged {PLAN} in {str(store.files)!r}"
        )
    try:
        plan = plan_of(restore_paths(stored["plan"], stored_places if isinstance(stored_places, dict) else {}))
    except (HoldfastError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise UnreadableRecord(
            f"expected the plan of an audit in {PLAN} of {str(store.files)!r}, it is damaged ({first_line(error)}); "
            "make its parts again"
        ) from error
    if not trust:
        demand_trust(filter(None, [*plan.encoders, plan.data, plan.train]), f"the plan in {str(store.files)!r}")

    # Score what is complete
    audit = prepare(plan, store.files.place, overwrite=overwrite, engine=engine, some=True, listener=listener)
    with closing(audit.claim):
        if not complete and (missing := _missing(audit)):
            raise Missing(
                f"{str(store.files)!r} is not complete: {format_list(missing)}; run the parts that are missing again, "
                "or add --complete to make it here"
            )
        return run_round(audit, engine, command)


def _part_files(part: Folder) -> tuple[bytes, list[str]]:
    """Return a part's plan, and the names of its shards."""
    try:
        return part.read(PLAN), part.files(CACHE)
    except OSError as error:
        raise UnreadableRecord(
            f"expected a folder with a part of an audit (made with --shard), got {str(part)!r}: {os_reason(error)}"
        ) from error


def _copy(store: Store, present: set[str], part: Folder, plan: bytes, files: Sequence[str]) -> None:
    """Copy the shards of a part that are not `present` yet, and its plan where there is none."""
    if not store.exists(PLAN):
        store.write_bytes(PLAN, plan)
    elif store.files.read(PLAN) != plan:
        raise Mismatch(
            f"{str(part)!r} holds a part of another audit than {str(store.files)!r}: their {PLAN} differ; merge parts "
            "of one command, with the same encoders, images and parameters"
        )
    for name in files:
        if name not in present and not name.endswith(".part"):
            with part.fetch(name) as path:
                shard = read_bytes(path, None)
            store.write_bytes(name, shard)
            if name.endswith(SHARD) and store.read_tensors(name) is None:
                store.delete(name)  # damaged where it came from
            else:
                present.add(name)


def format_list(items: Sequence[str], most: int = 3) -> str:
    """Return the first items in one line, and how many more there are."""
    more = f"; and {len(items) - most} more" if len(items) > most else ""
    return "; ".join(items[:most]) + more


def _missing(audit: PreparedAudit) -> list[str]:
    """Return what no part has made nor failed to make, a few words for each observation."""
    worker, plan, names = Worker(replace(audit, listener=Silent())), audit.plan, set(audit.store.names(CACHE))
    missing: list[str] = []
    for number, encoder in enumerate(audit.names):
        # An encoder that cannot be opened has no shards, and scoring says why
        if not isinstance(opened := worker(WorkItem(number, Step.OPEN)), OpenedEncoder):
            continue
        lacking = [[shard.file for shard in shards if shard.file not in names] for shards in opened.shards]
        failed = {o for o, files in enumerate(lacking) if any(mark_of(file) in names for file in files)}
        missing += [
            f"{encoder}, {plan.order[o].title}: {len(files)} of {len(opened.shards[o])} shards are missing"
            for o, files in enumerate(lacking)
            if files and o not in failed and not plan.requirements[o] & failed
        ]
    return missing
