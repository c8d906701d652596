"""Audits of one session of pytest: each is made once, in a run folder that the processes of the session share."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor, nn

import holdfast
from holdfast.api.record import Record
from holdfast.report.html import publish
from holdfast.runtime.errors import BadValue

PLAIN = (str, int, float, bool, type(None), Path)
"""What is the same in every process that says the same."""


class Audits:
    """Calls `holdfast.audit`, and returns the record of the first such call where the arguments are the same again.

    Networks, tensors and arrays are the same while they are the same object with the same numbers in it; a spec is the
    same for the whole session, whatever becomes of the file that it names.

    Args:
        place: where run folders are made. An audit of specs alone is shared by the processes of a session: the first
            one makes it, and the others read it.
        worker: the name of this process among several; "" where there is one.
        with_report: write `report.html` into each run folder.

    Attributes:
        asked: the records that were asked for since the test at hand began.
    """

    def __init__(self, place: Path, *, worker: str = "", with_report: bool = False):
        self._place, self._worker, self._with_report = place, worker, with_report
        self._records: dict[Any, tuple[Record, Any]] = {}
        self.asked: list[Record] = []

    def __call__(self, model: Any, data: Any = None, **options: Any) -> Record:
        """Audit, see `holdfast.audit`; no clock decides, unless `budget` or `until` is given.

        Raises:
            HoldfastError: as `holdfast.audit`; or an `out`, which is decided here.
        """
        if "out" in options:
            raise BadValue(
                f"holdfast_audit: expected no out, got {options['out']!r}; keep run folders with --holdfast-out DIR"
            )
        # With a budget, the clock of each machine would decide how much is done
        usual = {"quiet": True} if "until" in options else {"quiet": True, "budget": "none"}
        arguments = (model, data, usual | options)
        key = _identity(arguments)
        if key not in self._records:  # with its arguments: while they live, no other object has the id of one
            self._records[key] = self._run_audit(*arguments), arguments
        record, _ = self._records[key]
        self.asked.append(record)
        return record

    def _run_audit(self, model: Any, data: Any, options: Mapping[str, Any]) -> Record:
        """Audit in a folder of this audit's own."""
        words = re.sub(r"[^A-Za-z0-9.]+", "-", model if isinstance(model, str) else type(model).__name__).strip("-")
        # A spec says the same in every process, so the folder is named by it; an object lives in one process
        if _is_plain(arguments := (model, data, options)):
            folder = self._place / f"{words}-{hashlib.sha256(repr(arguments).encode()).hexdigest()[:8]}"
        else:
            folder = self._place / self._worker / f"{words}-{len(self._records) + 1}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        # The first process audits; the others find the folder done
        with FileLock(f"{folder}.lock"):
            record = holdfast.audit(model, data, **options, out=folder, overwrite=True)
            if self._with_report:
                publish(folder)
        return record


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    return isinstance(value, PLAIN) or (isinstance(value, (list, tuple)) and all(map(_is_plain, value)))


def _identity(value: Any) -> Any:
    """Return what is equal for two arguments exactly where they are the same."""
    if isinstance(value, Mapping):
        # In one order, for keywords may come in any
        return tuple((key, _identity(value[key])) for key in sorted(value, key=str))
    if isinstance(value, (list, tuple)):
        return tuple(map(_identity, value))
    if isinstance(value, PLAIN):
        return type(value), value  # since 1 == True
    if isinstance(value, nn.Module):
        # A network that has learned since is another one
        return id(value), tuple((key, _digest(tensor)) for key, tensor in value.state_dict().items())
    if isinstance(value, (Tensor, np.ndarray)):
        return id(value), _digest(torch.as_tensor(value))
    return id(value)


def _digest(tensor: Tensor) -> str:
    numbers = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return hashlib.sha256(numbers.tobytes()).hexdigest()
