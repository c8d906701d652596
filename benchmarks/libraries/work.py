"""The same work by Holdfast and by another library."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from benchmarks.paced import beside
from benchmarks.result import Result, from_rounds


@dataclass(frozen=True)
class Work:
    """One piece of work, done twice.

    Attributes:
        library: whose it is beside ours: the name of its distribution.
        what: the work, in words.
        ours: does it by Holdfast.
        theirs: does it by the library.
        apart: how far the two results are apart.
        means: what that number is.
        unit: of it.
        allowed: the most that it may be; None where the two are not meant to be equal.
    """

    library: str
    what: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    apart: Callable[[Any, Any], float]
    means: str
    unit: str = ""
    allowed: float | None = None


def compare(work: Work, rounds: int) -> list[Result]:
    """Return our time over the library's, and how far the results are apart."""
    results: dict[str, Any] = {}

    def doing(whose: str, do: Callable[[], Any]) -> Callable[[], None]:
        return lambda: results.update({whose: do()})

    ratios, floors = beside(doing("ours", work.ours), doing("theirs", work.theirs), rounds)
    about = {"library": work.library, "version": version(work.library), "what": work.what}
    note = f"{about['version']}, {rounds} rounds, theirs {min(floors):.3g} s"
    time = from_rounds(f"{work.library}, {work.what}, time", ratios, None, note)
    far, name = work.apart(results["ours"], results["theirs"]), f"{work.library}, {work.what}, {work.means}"
    return [
        Result(time.name, time.value, time.lowest, "x", None, note, highest=time.highest, rounds=rounds, facts=about),
        Result(name, far, None, work.unit, work.allowed, about["version"], facts={**about, "what": work.means}),
    ]
