"""A piece of work that makes one row, with the time it may take and what it needs."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from benchmarks.gpu.row import Finding


@dataclass(frozen=True)
class Task:
    """One row to be.

    Attributes:
        section: of the row.
        name: of the row.
        work: makes it.
        limit: seconds it may take.
        needs: packages it imports that the core of Holdfast does without.
        without: why it is left out here, whatever is installed; "" where it is not.
    """

    section: str
    name: str
    work: Callable[[], Finding]
    limit: float = 60.0
    needs: tuple[str, ...] = ()
    without: str = ""

    @property
    def left_out(self) -> str:
        """Why it is left out here; "" where it is not."""
        absent = [package for package in self.needs if find_spec(package) is None]
        if absent:
            return f"left out: {' and '.join(absent)} {'are' if len(absent) > 1 else 'is'} not installed"
        return f"left out: {self.without}" if self.without else ""
