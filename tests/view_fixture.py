"""A folder of runs in every state, for the tests of the viewer."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from holdfast.storage.progress_file import PROGRESS, this_machine
from holdfast.storage.seal import add_seal
from report_fixture import make_run, write_record

EVIL = "<img src=x onerror=alert(1)>"


def progress(**changes: Any) -> dict[str, Any]:
    """Return what an audit in this process writes of its progress now."""
    return {
        "process": os.getpid(), "machine": this_machine(), "started": "2026-03-02T10:11:12+00:00",
        "written": time.time(), "stage": "smallest changes", "unit": "passes", "encoders": ["zoo:a", "zoo:b"],
        "bars": [{"name": "zoo:a", "done": 100, "total": 100}, {"name": "zoo:b", "done": 50, "total": 100}],
        "left": 75.0, "budget": 120.0, "spent": 30.0, "rounds": [], "failures": [f"zoo:a: {EVIL}"], **changes,
    }  # fmt: skip


def write_progress(folder: Path, **changes: Any) -> None:
    """Write progress, and the plan that stands beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = {"plan": {"encoders": ["zoo:a", "zoo:b"], "data": "digits", "profile": "quick"}, "data": "f"}
    (folder / "plan.json").write_text(json.dumps(add_seal(plan)), encoding="utf-8")
    (folder / PROGRESS).write_text(json.dumps(progress(**changes)), encoding="utf-8")


def dead_process() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def make_runs(root: Path) -> None:
    """Write runs in every state: `done/a`, `done/b` (the same images), `done/other`, and one of each other state."""
    for place in ("done/a", "done/b", f"done/{EVIL}"):
        make_run(root / place)
    other = make_run(root / "done/other", encoders=1, seed=7)
    other["data"]["fingerprint"], other["plan"]["profile"] = "0" * 16, "standard"
    write_record(root / "done/other", other)
    write_progress(root / "running")
    write_progress(root / "killed", process=dead_process(), written=time.time() - 30)
    (root / "damaged").mkdir()
    (root / "damaged/record.json").write_text('{"schema": ', encoding="utf-8")
    (root / "link").mkdir()
    (root / "link/record.json").symlink_to(root / "done/a/record.json")
    (root / "outside").symlink_to(root.parent, target_is_directory=True)
