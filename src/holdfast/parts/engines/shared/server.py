"""What does tasks inside a worker, and how work, tasks and errors travel between processes: as bytes."""

import pickle
from collections.abc import Callable
from typing import Any

from holdfast.core import registry
from holdfast.core.engine import Work
from holdfast.runtime.errors import Failed, Unsupported, first_line
from holdfast.runtime.foreign import foreign
from holdfast.runtime.freed_memory import keep_freed_memory


class Server:
    """Does tasks in a worker process, after it has made its work; both return (value, error), pickled."""

    def load(self, make: bytes, threads: int) -> bytes:
        """Make the work from what `pack_work` has made of it, for so many threads of torch."""
        import torch

        torch.set_num_threads(threads)
        keep_freed_memory()
        return _answer(lambda: self._load(make))

    def _load(self, make: bytes) -> None:
        self._work: Work = unpack_work(make)

    def do(self, task: bytes) -> bytes:
        """Do a pickled task."""
        return _answer(lambda: self._work(pickle.loads(task)))


def _answer(run: Callable[[], Any]) -> bytes:
    """Return the value of what is run and its error, pickled."""
    try:
        with foreign("code that a worker called", "run"):
            # Pickled inside `try`: a value that cannot be pickled is an error of the task
            return pickle.dumps((run(), None))
    except Exception as error:
        return pickle.dumps((None, portable(error)))


def pack_work(make: Callable[[], Work], dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """Return what makes a worker's work as bytes, and which files of parts it must run before; see `unpack_work`.

    Raises:
        HoldfastError: something of it cannot be sent to another process.
    """
    try:
        # Two layers: the files of parts must have run before what uses their classes can be unpickled
        return pickle.dumps((registry.paths(), dumps(make)))
    except Exception as error:  # whatever a user's module raises
        raise Unsupported(
            f"expected encoders and images that other processes can open, got some that cannot be sent to them "
            f"({first_line(error)}); name them by specs (module:PACKAGE.FUNCTION, a folder), or leave --workers out"
        ) from error


def unpack_work(work: bytes) -> Work:
    """Return a worker's work, made in its process, which knows the user's own parts first."""
    paths, make = pickle.loads(work)
    for path in paths:
        registry.load(path)
    return pickle.loads(make)()


def portable(error: Exception) -> Exception:
    """Return an error that can be sent to another process and says the same."""
    try:
        # Some exceptions are pickled but cannot be made again, or lose their message on the way
        again = pickle.loads(pickle.dumps(error))
        return error if str(again) == str(error) else Failed(str(error))
    except Exception:
        return Failed(f"{type(error).__name__}: {first_line(error)}")
