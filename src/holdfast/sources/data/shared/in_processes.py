"""Items of a dataset read by processes of their own, as torch's DataLoader does."""

import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

from torch.utils.data import DataLoader, Dataset, Sampler

from holdfast.runtime.errors import Failed, describe_error

Answer = tuple[Any, str]
"""An item; or why it cannot be read, "" where it can."""


class _Answering(Dataset[Answer]):
    """A dataset that says why an item cannot be read, instead of ending whoever asks for several."""

    def __init__(self, items: Any):
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Answer:
        try:
            return self._items[index], ""
        except Exception as error:
            return None, describe_error(error)


class _Asked(Sampler[int]):
    """The items that are asked for next."""

    def __init__(self) -> None:
        self.indices: Sequence[int] = ()

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)


class InProcesses:
    """Items of a dataset, read by processes that begin with the first question and stay.

    Each has a copy of the dataset, so that it may be made for one thread and keep a file open that it opened there.

    Args:
        items: the dataset.
        processes: how many.
    """

    def __init__(self, items: Any, processes: int):
        self._given, self._turn = (items, processes), threading.Lock()
        self._begun, self._ended = False, ""
        self._asked = _Asked()
        with _however_many():
            self._loader: DataLoader[Answer] = DataLoader(
                # No batches: each item comes back as it is, with its error
                _Answering(items), None, sampler=self._asked, num_workers=processes, persistent_workers=True,
                collate_fn=cast(Any, _as_it_is),
            )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the dataset; processes begin anew."""
        return InProcesses, self._given

    def read(self, indices: Sequence[int]) -> list[Answer]:
        """Return some items, in order.

        Raises:
            HoldfastError: a process that ended.
        """
        with self._turn:
            self._asked.indices = indices
            try:
                if not self._ended:
                    return self._read() if self._begun else self._begin()
            except Exception as error:  # torch waits seconds before it says so; nobody reads after it
                self._ended = describe_error(error)
        raise Failed(f"a process that reads the dataset ended ({self._ended}); give it more memory, or fewer processes")

    def _begin(self) -> list[Answer]:
        """Read in a thread of its own: from the main one torch would let a process that ends break in anywhere."""
        self._begun = True
        with _however_many(), ThreadPoolExecutor(1) as thread:
            return thread.submit(self._read).result()

    def _read(self) -> list[Answer]:
        return [cast(Answer, answer) for answer in self._loader]


@contextmanager
def _however_many() -> Iterator[None]:
    """Let torch not warn of more processes than there are cores, which is what was asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _as_it_is(item: Answer) -> Answer:
    return item
