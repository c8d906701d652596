"""`progress.json`: what an audit at work writes beside its record, so that others see how far it is.

An audit that ends takes the file away. One that is killed leaves it behind, and is known by that: its process is gone,
or has written nothing for a while.
"""

import hashlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.runtime.doors import SMALL, read_bytes
from holdfast.storage.documents import parse_json
from holdfast.storage.record_shape import SCORE
from holdfast.storage.shape import COUNT, FLAG, NUMBER, TEXT, Items, Maybe, Object, one_of

PROGRESS = "progress.json"

EVERY = 2.0
"""Seconds between two signs of life."""

LOST = 5 * EVERY
"""Seconds without a sign of life after which a process that this machine does not know is dead."""

SILENT = 60.0
"""Seconds without a sign of life after which any process is dead: of other machines nothing else is known."""

BAR = Object({"name": TEXT, "done": COUNT, "total": COUNT})
SCORED = Object(
    {"encoder": TEXT, "measure": TEXT, "title": TEXT, "unit": TEXT, "better": one_of("higher", "lower"),
     "levels": FLAG, "score": SCORE}
)  # fmt: skip
ROUND = Object({"number": COUNT, "attacked": COUNT, "seconds": NUMBER, "scores": Items(SCORED)})
SHAPE = Object(
    {"process": COUNT, "machine": TEXT, "started": TEXT, "written": NUMBER, "stage": TEXT, "unit": TEXT,
     "encoders": Items(TEXT), "bars": Items(BAR), "left": Maybe(NUMBER), "budget": Maybe(NUMBER), "spent": NUMBER,
     "rounds": Items(ROUND), "failures": Items(TEXT)}
)  # fmt: skip


def this_machine() -> str:
    """Return what tells this machine from others without its name: 16 hex digits."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:16]


def read_progress(folder: Path) -> dict[str, Any] | None:
    """Return what an audit in a folder has last written of its progress; None where there is nothing to be read."""
    try:
        data = parse_json(read_bytes(folder / PROGRESS, SMALL))
    except (OSError, ValueError):
        return None
    return data if next(SHAPE.wrong(data), None) is None else None


def alive(progress: Mapping[str, Any], now: float) -> bool:
    """Whether the audit that wrote this is still at work.

    Args:
        progress: what it wrote, see `read_progress`.
        now: seconds since the epoch.
    """
    silent = now - progress["written"]
    if silent > LOST and progress["machine"] == this_machine() and not _runs(progress["process"]):
        return False  # not at once: in a container the same number is another process
    return silent <= SILENT


def _runs(process: int) -> bool:
    """Whether this machine has a process of that number."""
    try:
        os.kill(process, 0)  # signal 0 asks, and does nothing
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True


def scores_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the headline of each measure of each encoder of a record, with what it takes to show it."""
    return [
        {
            "encoder": encoder["name"], "measure": key, "title": m["title"], "unit": m["unit"], "better": m["better"],
            "levels": bool((m.get("in_words") or {}).get("levels")), "score": m["scores"][m["headline"]],
        }
        for encoder in record["encoders"]
        for key, m in encoder.get("measures", {}).items()
        if m.get("headline") in m["scores"]
    ]  # fmt: skip


def round_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record as one round of an audit: its number, how many images are attacked, its seconds and scores."""
    run = record["run"]
    rounds = run.get("rounds") or {"number": 1, "before": 0.0}
    return {
        "number": rounds["number"],
        "attacked": record["data"]["attacked"],
        "seconds": rounds["before"] + run["seconds"],
        "scores": scores_of(record),
    }
