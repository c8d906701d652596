"""Answers about whole tensors that are asked for again: all pairs of 50,000 representations take minutes."""

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

from torch import Tensor

_CHUNK = 4096
"""Rows read at a time."""

Answer = TypeVar("Answer")


class Remembered(Generic[Answer]):
    """The last answers to questions, by what was asked.

    Args:
        most: how many are kept; the one that was not asked for the longest goes first.
    """

    def __init__(self, most: int):
        self._most, self._answers, self._lock = most, OrderedDict[Hashable, Answer](), Lock()

    def get(self, question: Hashable) -> Answer | None:
        """Return the answer; None where there is none."""
        with self._lock:
            if question in self._answers:
                self._answers.move_to_end(question)
            return self._answers.get(question)

    def put(self, question: Hashable, answer: Answer) -> None:
        """Remember an answer, which nobody may change afterwards."""
        with self._lock:
            self._answers[question] = answer
            self._answers.move_to_end(question)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)


def content(values: Tensor) -> str:
    """Return the SHA-256 of a tensor's shape and of its values in float64, so equal numbers of any type are equal.

    Example:
        >>> content(torch.ones(2)) == content(torch.ones(2).double())
        True
    """
    digest = hashlib.sha256(str(tuple(values.shape)).encode())
    # Part by part, for a float64 copy of a whole bank would take twice its memory
    for part in values.split(_CHUNK):
        digest.update(part.detach().cpu().double().contiguous().numpy().tobytes())
    return digest.hexdigest()
