"""One score of a record, which says what it is of."""

from dataclasses import asdict, dataclass, field
from typing import Literal

from rich.text import Text

from holdfast.core import Score
from holdfast.report.numbers import BETTER, format_score
from holdfast.report.render import to_html
from holdfast.storage.record import MeasureEntry


@dataclass(frozen=True, repr=False)
class MeasuredScore(Score):
    """A score that says in a line what it is of; its `unit` is always given.

    Scores are equal where their numbers are, whatever they are of.

    Attributes:
        title: of its measure.
        name: of the score.
        encoder: that was measured.
        better: which direction is more robust.
        levels: whether its size is told in grey levels.
    """

    title: str = field(default="", compare=False)
    name: str = field(default="", compare=False)
    encoder: str = field(default="", compare=False)
    better: Literal["", "lower", "higher", "neither"] = field(default="", compare=False)
    levels: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return "".join(self._pieces())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title, value, rest = self._pieces()
        return to_html([Text.assemble(title, (value, "bold"), (rest, "dim"))])

    def _pieces(self) -> tuple[str, str, str]:
        """Return what it is of, its value, and its interval with what that is conditional on."""
        value, interval = format_score(self, self.unit, self.levels)
        level = f" {interval} ({100 * self.confidence:g} %, n = {self.n:,})" if interval else f"; n = {self.n:,}"
        facts = filter(None, [level, BETTER.get(self.better), self.note])
        return f"{self.title}, {self.name}, of {self.encoder}: ", value, "; ".join(facts)


def read_score(encoder: str, measure: MeasureEntry, name: str) -> MeasuredScore:
    """Return a score of a record.

    Args:
        encoder: the encoder's name.
        measure: the entry of the measure.
        name: of the score.
    """
    facts = asdict(measure.scores[name])
    facts |= {
        "unit": facts["unit"] or measure.unit,
        "title": measure.title,
        "better": facts["better"] or measure.better,
    }
    levels = measure.levels and facts["unit"] == "pixels"
    return MeasuredScore(**facts, name=name, encoder=encoder, levels=levels)
