"""A comparison as one table for a paper, in Markdown and LaTeX: encoders against measures, or the other way round."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.text import Text

from holdfast.report.document import Document, Items
from holdfast.report.documents.comparison import (
    ARROW,
    count_seeds,
    first_names,
    heading,
    noun,
    opening,
    p_text,
    p_title,
    rank,
    sentences,
)
from holdfast.report.names import shorten_names
from holdfast.report.numbers import finite, format_score_inline, vacuous
from holdfast.report.table import Table, latex_text
from holdfast.runtime.checked import Checked, Count
from holdfast.storage.comparison import ComparedMeasure, Comparison, RankedRow
from holdfast.storage.sides import Side, sides_of
from holdfast.storage.standing import VOID

KEY = (
    "Each cell: value [95 % interval], possible ranks. Bold: significantly better than every other ranked {noun}, "
    "after correction. At least, at most: a check failed, the number is a bound on one side."
)
OVER_SEEDS = "Each value is a mean of seeds ({seeds}), its interval over images and seeds."
BRACKET = (
    "Of a measure with two columns the truth lies between them: an attack shows that an encoder is at least so bad, a "
    "proof that it is at least so good."
)


@dataclass(frozen=True)
class Layout(metaclass=Checked):
    """How the table is laid out.

    Attributes:
        digits: significant digits of each value, whose interval has as many decimals; None: as many as the interval
            supports.
        transpose: measures down and encoders across.
        p_values: a column beside each measure with the corrected p-value of the paired difference to the first.
    """

    digits: Count | None = None
    transpose: bool = False
    p_values: bool = False


@dataclass(frozen=True)
class _Column:
    """A measure, or one side of it, as a column."""

    title: str
    cells: Mapping[str, Text]


def grid(data: Comparison, layout: Layout | None = None) -> Table:
    """Return encoders against measures, those first that come first; the best of each measure is bold.

    Args:
        data: a comparison with short names, see `shorten_names`.
        layout: how; as `Layout()` where None.
    """
    layout = layout or Layout()
    names = dict.fromkeys((*first_names(data), *data.measures))
    columns = [column for name in names for column in _columns(data.measures[name], name, data, layout)]
    encoders = [encoder.name for encoder in data.encoders]
    if layout.transpose:
        return Table(["measure", *encoders], [[Text(c.title), *(c.cells[e] for e in encoders)] for c in columns])
    return Table(
        [noun(data), *(c.title for c in columns)], [[Text(e), *(c.cells[e] for c in columns)] for e in encoders]
    )


def _columns(m: ComparedMeasure, name: str, data: Comparison, layout: Layout) -> list[_Column]:
    """Return a column for the headline of a measure, or one for each side of it, and one for its p-values."""
    title = f"{heading(m, name)} {ARROW[m.better]}"
    known = {row.encoder: row for row in m.rows}
    # What is answered from both sides has a column for each
    sides = next((s for row in m.rows if (s := sides_of(row.scores, row.headline, m.better))), ())
    columns = [
        _Column(
            f"{title}, {side.source} ({side.bound} bound)", {e: _cell(row, m, layout, side) for e, row in known.items()}
        )
        for side in sides
    ] or [_Column(title, {e: _cell(row, m, layout) for e, row in known.items()})]
    if layout.p_values and m.pairs:
        columns.append(
            _Column(f"{heading(m, name)}, {p_title(data.correction)}", {e: Text(_p(row)) for e, row in known.items()})
        )
    return columns


def _p(row: RankedRow) -> str:
    return p_text(row.behind.p_adjusted) if row.behind else "–"


def _cell(row: RankedRow, m: ComparedMeasure, layout: Layout, side: Side | None = None) -> Text:
    """Return what an encoder's headline says, with its rank, or one side of it."""
    name = row.headline if side is None else side.score
    score = row.scores.get(name) if name is not None else None
    if score is None:
        return Text(str(row.why_not).partition(":")[0] if name == row.headline else "–")
    text = format_score_inline(score, m.unit, m.levels, layout.digits)
    if side is not None and side.source == "proof" and vacuous(score, score.unit or m.unit, m.better):
        text = "nothing proved"
    if name != row.headline:
        return Text(text)
    place = f", {rank(row)}" if row.rank else ", not ranked" if row.why_not and score.standing != VOID else ""
    return Text(text + place, "bold" if row.best else "")


def document(data: Comparison, layout: Layout | None = None) -> Document:
    """Return the comparison as one table, and what a reader must know."""
    data, _ = shorten_names(data)
    return [Items(opening(data)), grid(data, layout), *(Text(key, "dim") for key in keys(data)), Items(sentences(data))]


def latex(data: Comparison, layout: Layout | None = None) -> str:
    """Return the comparison as a booktabs table: encoders down, measures across."""
    data, _ = shorten_names(data)
    notes = [f"% {latex_text(text)}" for text in (*keys(data), *(line.plain for line in sentences(data)))]
    return "\n".join(["% needs \\usepackage{booktabs}", grid(data, layout).latex(), *notes, ""])


def keys(data: Comparison) -> list[str]:
    """Return how cells are read, and of how many images each side of a bracket is where these are not the same."""
    lines, several = [KEY.format(noun=noun(data))], False
    lines += [OVER_SEEDS.format(seeds=seeds)] if (seeds := count_seeds(data)) else []
    for name, m in data.measures.items():
        for row in m.rows:
            sides = sides_of(row.scores, row.headline, m.better)
            # Proofs are dear, so they are often of fewer images than the attack
            counts = [row.scores[side.score].n for side in sides]
            several |= bool(sides)
            if len(set(counts)) > 1 and all(map(finite, counts)):
                about = f"{row.encoder}, {heading(m, name).lower()}"
                lines.append(f"{about}: the attack is of {counts[0]:,} images, the proof of {counts[1]:,} of them.")
    return [lines[0], BRACKET, *lines[1:]] if several else lines
