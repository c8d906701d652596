"""One entry of a list that does not fit, such as a corruption at an odd size, is left out; the rest is kept.

Whatever part has lists, none of them knows of this: an entry fits if the part with this entry alone does.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import reduce
from typing import Any, Generic, TypeVar

from holdfast.core import HoldfastError, Observation, Score
from holdfast.core.registry import part_name
from holdfast.core.source_spec import label
from holdfast.runtime.privacy import public

P = TypeVar("P")

Path = tuple[str, ...]
"""Where a list is among the parameters of a part, and of the parts among these."""


@dataclass(frozen=True)
class Fitted(Generic[P]):
    """A part without what of its lists does not fit.

    Attributes:
        part: the part.
        left_out: the entries that do not fit, and why each does not.
        kept: the other entries of the same lists.
    """

    part: P
    left_out: dict[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()

    def annotate_score(self, name: str, score: Score) -> Score:
        """Return a score that says over what it is, unless it is that of one entry among others."""
        if not self.left_out or (name in self.kept and len(self.kept) > 1):
            return score
        return replace(score, note="; ".join(filter(None, [self._words, score.note])))

    def annotate(self, finding: str) -> str:
        """Return the finding of a check that says over what it is."""
        return "; ".join([finding, self._words]) if self.left_out else finding

    @property
    def _words(self) -> str:
        of = f"{len(self.left_out)} of {len(self.left_out) + len(self.kept)} " if self.kept else ""
        return f"{of}left out: {', '.join(f'“{name}”' for name in self.left_out)}"


def drop_misfits(part: P, misfit: Callable[[P], str]) -> Fitted[P] | None:
    """Return a part that does not fit without those entries of its lists that do not fit alone.

    Returns:
        None where no list has both, entries that fit and others, or where the rest does not fit together.
    """
    left_out: dict[str, str] = {}
    kept: tuple[str, ...] = ()
    for group in _groups(part):
        values = [_at(part, path) for path in group]
        # Each entry is tried alone
        reasons = [misfit(_with(part, group, (number,))) for number in range(len(values[0]))]
        fits = tuple(number for number, reason in enumerate(reasons) if not reason)
        if not 0 < len(fits) < len(reasons):
            continue
        part, names = _with(part, group, fits), _names(values, group)
        left_out |= {name: reason for name, reason in zip(names, reasons, strict=True) if reason}
        kept += tuple(names[number] for number in fits)
        # What fits alone need not fit together
        if not misfit(part):
            return Fitted(part, left_out, kept)
    return None


def questions_that_fit(
    asked: Iterable[Observation], runs: Callable[[Observation], bool]
) -> tuple[Observation, set[Observation]] | None:
    """Return an observation that serves all those of some, joined in one that failed, which do not fail alone.

    Returns:
        the observation, and which it serves; None where all fail, or none.
    """
    own = list(dict.fromkeys(asked))
    fit = [each for each in own if len(own) > 1 and runs(each)]
    return (reduce(lambda joined, each: joined.join(each), fit), set(fit)) if 0 < len(fit) < len(own) else None


def _groups(part: Any) -> list[tuple[Path, ...]]:
    """Return each list by itself, or with the one that its entries belong to, where it cannot be shortened alone."""
    paths = list(_lists(part))
    # Lists of one length that cannot be shortened alone may belong together, entry by entry
    free = [path for path in paths if _shortens(part, (path,))]
    bound = [path for path in paths if path not in free]
    pairs = (pair for pair in itertools.combinations(bound, 2) if len(_at(part, pair[0])) == len(_at(part, pair[1])))
    return [*((path,) for path in free), *filter(lambda pair: _shortens(part, pair), pairs)]


def _shortens(part: Any, group: tuple[Path, ...]) -> bool:
    """Return whether each entry of some lists may stand alone."""
    try:
        for number in range(len(_at(part, group[0]))):
            _with(part, group, (number,))
    except HoldfastError:
        return False
    return True


def _lists(part: Any) -> Iterator[Path]:
    """Yield where a part has lists of two entries or more."""
    for entry in fields(part):
        value = getattr(part, entry.name)
        if isinstance(value, tuple) and len(value) > 1:
            yield (entry.name,)
        elif is_dataclass(value):
            yield from ((entry.name, *path) for path in _lists(value))


def _at(part: Any, path: Path) -> Any:
    for name in path:
        part = getattr(part, name)
    return part


def _with(part: Any, paths: Sequence[Path], numbers: Sequence[int]) -> Any:
    """Return a part with some entries of its lists alone."""
    return _replace_values(part, {path: tuple(_at(part, path)[number] for number in numbers) for path in paths})


def _replace_values(part: Any, values: dict[Path, Any]) -> Any:
    """Return a part with other values at some places, all of them at once."""
    inner = {path[0]: {rest[1:]: value for rest, value in values.items() if rest[0] == path[0]} for path in values}
    return replace(
        part,
        **{
            name: each[()] if () in each else _replace_values(getattr(part, name), each) for name, each in inner.items()
        },
    )


def _names(values: Sequence[tuple[Any, ...]], group: Sequence[Path]) -> list[str]:
    """Return what the entries of lists of one length are called; twins are numbered."""
    names: list[str] = []
    for row in zip(*values, strict=True):
        name = ", ".join(_name(entry, path[-1]) for entry, path in zip(row, group, strict=True))
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        names.append(next(choice for choice in itertools.chain([name], numbered) if choice not in names))
    return names


def _name(entry: Any, of: str) -> str:
    if isinstance(entry, str):
        return public(label(entry)) if of == "surrogates" else entry
    if isinstance(entry, (int, float)):
        return f"{of} {entry:g}"
    title = getattr(entry, "title", None)
    return title if isinstance(title, str) else part_name(entry) if is_dataclass(entry) else str(entry)
