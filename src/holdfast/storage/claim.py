"""A run folder belongs to one audit at a time: a lock that says whose it is, and that ends with its process."""

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.runtime.errors import BadPlace
from holdfast.storage.documents import parse_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.progress_file import this_machine

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

OWNER, TURN = "cache/audit.lock", "cache/turn.lock"
"""Whose the folder is, locked as long as it is; and whose turn it is to find out, locked for a moment."""

PAUSE = 0.2
"""Seconds between two looks at a folder that is at work."""


class Claim:
    """The right to write into a run folder, until it is closed.

    Args:
        owner: the lock; None where a file system has none, and the claim is only believed.
        turn: the other lock, while it is found out what the folder holds.
        alone: whether nobody else has the right.
    """

    def __init__(self, owner: BinaryIO | None = None, turn: BinaryIO | None = None, alone: bool = False):
        self._owner, self._turn, self._alone = owner, turn, alone

    def __del__(self) -> None:
        self.close()

    def settle(self) -> None:
        """Let others look, who find in the folder what it holds now."""
        if self._turn is not None:
            self._turn.close()
            self._turn = None

    def close(self) -> None:
        """Give the folder back."""
        self.settle()
        if self._owner is not None:
            if self._alone:
                with suppress(OSError, ValueError):  # a collector may have closed it before
                    self._owner.truncate(0)
            self._owner.close()
            self._owner = None


def claim(
    folder: Folder, plan: str, *, shared: bool = False, say: Callable[[str], object] = lambda text: None
) -> Claim:
    """Claim a run folder for an audit; wait where the same audit is at work there.

    Folders that are not local, and file systems without locks, are not claimed.
    """
    if folder.local is None or fcntl is None:
        return Claim()
    folder.make("cache")
    turn = _open_lock(folder.local / TURN)
    try:
        owner = _open_lock(folder.local / OWNER)
    except OSError:
        turn.close()
        raise
    try:
        while True:
            fcntl.flock(turn, fcntl.LOCK_EX)
            if _try_lock(owner, fcntl.LOCK_EX):
                _sign(owner, plan)
                if shared:
                    fcntl.flock(owner, fcntl.LOCK_SH)  # nobody comes between: they wait for their turn
                return Claim(owner, turn, not shared)
            about = _signature(owner)
            if _is_over(about):
                owner.close()
                return Claim(None, turn)
            if about.get("plan") not in (plan, None):
                raise BadPlace(
                    f"the folder {str(folder)!r} is at work for another audit ({_in_words(about)}); choose another "
                    "--out, or wait until that one has ended"
                )
            if shared and _try_lock(owner, fcntl.LOCK_SH):
                return Claim(owner, turn)
            fcntl.flock(turn, fcntl.LOCK_UN)
            say(f"waiting for the same audit, which is at work in {folder} ({_in_words(about)})")
            time.sleep(PAUSE)
    except BaseException as error:
        turn.close()
        owner.close()
        if isinstance(error, OSError):  # a file system without locks
            return Claim()
        raise


def _open_lock(path: Path) -> BinaryIO:
    """Open a lock, which is no link to somewhere else."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666), "rb+", 0)


def _try_lock(file: BinaryIO, kind: int) -> bool:
    """Lock a file, unless somebody else has."""
    assert fcntl is not None
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(file: BinaryIO, plan: str) -> None:
    """Say whose a folder is."""
    about = {"process": os.getpid(), "thread": threading.get_ident(), "machine": this_machine(), "since": time.time()}
    file.seek(0)
    file.truncate()
    file.write(json.dumps({**about, "plan": plan}).encode())


def _signature(file: BinaryIO) -> dict[str, Any]:
    """Return whose a folder is; nothing where that is not said, or no longer."""
    file.seek(0)
    try:
        about = parse_json(file.read(2**16))
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}


def _is_over(about: dict[str, Any]) -> bool:
    """Whether a folder is this process's own, for an audit that it no longer makes."""
    if about.get("process") != os.getpid() or about.get("machine") != this_machine():
        return False
    others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    return about.get("thread") not in others


def _in_words(about: dict[str, Any]) -> str:
    """Return whose a folder is, and for how long it has been."""
    since = about.get("since")
    if not isinstance(since, (int, float)):
        return "it has just begun"
    minutes = max(0, round((time.time() - since) / 60))
    here = "this machine" if about.get("machine") == this_machine() else "another machine"
    return f"process {about.get('process')} of {here}, for {f'{minutes} min' if minutes else 'less than a minute'}"
