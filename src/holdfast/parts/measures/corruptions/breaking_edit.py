"""Breaking edit: how strong an everyday edit may be before an image is taken for another one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Failure, InWords, Measure, Observation, Score, Subject, Table
from holdfast.core.chart import Chart
from holdfast.numerics.statistics.broken_median import BrokenMedian
from holdfast.numerics.statistics.statistic import Mean, Share, Statistic
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.measures.shared.edit_curves import edit_curves
from holdfast.parts.measures.shared.edit_pair import APART, PAIR, pair_columns, pair_in_words, reduce_pair
from holdfast.parts.measures.shared.edits import EVERYDAY
from holdfast.parts.observations.breaking_radii import CLEARLY
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.edited import Edited
from holdfast.parts.observations.edited_twice import EditedTwice
from holdfast.parts.observations.harmful_pair import HarmfulPair
from holdfast.parts.threats.edit import Edit
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue

EVERY, REACH = "every edit", "reach of all edits"
"""Names of the scores of all edits: the share of images that hold over all ranges; the headline."""

MEDIAN = "{}: half break by"
"""Name of the score of an edit's median."""

SAID = 3
"""Edits that a sentence names."""


@dataclass(frozen=True)
class BreakingEdit(Measure):
    """E_x min(1, min_e s_e(x)), s_e(x) = min{ s : e_s(x) fails }, over edits e and the strengths s that were looked at.

    Each edit e is a family from mild (s = 0) to heavy (s = 1). By default an image fails where it is taken for another
    one of the population. s_e(x) is the smallest strength looked at that breaks the image, told in the edit's own unit:
    the image holds at all points of a grid below it. Between points nothing is known, so the strengths are upper
    bounds, as are the shares of images that hold; see `edited`. The headline is how far all edits may go until one of
    them breaks the image, the mean over images: the area below the curve of the images that hold.

    The pair: of edits at strengths at which each is harmless alone, the two that one after the other break the most
    images; chosen on other images than those that judge it, so that its interval need not know of the choice; see
    `harmful_pair`.

    Table, one row per attacked image: `strength@EDIT`, in [0, 1], inf where the image holds over the range, 0 where it
    fails as it is; `held@EDIT`, the largest strength below it at which the image was seen to hold; `again@EDIT`, 1
    where it holds at a heavier point of the grid than one that breaks it; `strength`, the smallest over edits; `reach`,
    the same, 1 where the image holds; `first`, the number of the edit that breaks it first, of several at once the one
    listed first, NaN where none does; `wrong`, 1 where the image fails as it is; `population`, how many images there
    are. Of images that judge the pair: `together`, `alone`, 1 where both edits, or one of them, break it; `pair@1`,
    `pair@2`, the numbers of the edits, `at@1`, `at@2`, their strengths; `chosen_on`, how many images chose.

    Attributes:
        edits: the families, in the order in which two of them are applied.
        failure: what counts as broken.
        strengths: points of the grid over each family.
        halvings: passes that narrow a first failure down.
        levels: strengths at which edits are tried alone before they are paired; 0: no pairs, and half of the passes.
        harmless: the largest share of images that an edit of a pair may break alone.
        choosing: images that choose the pair at most, the last ones of the audit.
        first: how many images; None: all that the audit attacks.
    """

    edits: tuple[Edit, ...] = EVERYDAY
    failure: Failure = Nearest()
    strengths: int = 8
    halvings: int = 3
    levels: int = 4
    harmless: float = 0.1
    choosing: Count = 32
    first: Count | None = field(default=None, kw_only=True)

    answers = True
    better = "higher"
    in_brief = True
    unit = "share"
    question = "How strong may everyday edits be before an image is taken for another one?"
    how_to_read = (
        "At 100 % no strength looked at breaks any image, from mild to heavy; at 40 % an image holds over the "
        "first 40 % of every range, on average, until one of the edits breaks it. It depends on the ranges and on the "
        "number of images, so compare it between audits that have both in common. The truth may be lower: strengths "
        "between those looked at may break an image too."
    )
    reference = (
        "the smallest edit that changes an answer, as in the DivergenceRadius of Liu et al. (2026); the edits are "
        "those of copy detection, Douze et al. (2021)"
    )

    def __post_init__(self) -> None:
        if not self.edits:
            raise BadValue("breaking_edit: edits: expected one edit or more, got none")
        titles = [edit.title for edit in self.edits]
        for title in titles:
            if titles.count(title) > 1 or title in (EVERY, REACH, PAIR, APART):
                raise BadValue(f"breaking_edit: edits: expected a title for each, got {title!r} again; set label")
        for needed in self.observations():
            needed.key()  # builds them, which refuses what they cannot do

    @property
    def needs_labels(self) -> bool:
        """Whether the failure reads labels."""
        return self.failure.needs_labels

    @property
    def corruptions(self) -> tuple[str, ...]:
        """The edits by their titles."""
        return tuple(edit.title for edit in self.edits)

    @property
    def column(self) -> str:
        """The share of the ranges over which no edit breaks the image."""
        return "reach"

    @property
    def edit_outcomes(self) -> dict[str, Edited]:
        """What is observed of each edit, by its title."""
        return {
            edit.title: Edited(edit, self.failure, self.strengths, self.halvings, first=self.first)
            for edit in self.edits
        }

    @property
    def twice(self) -> EditedTwice | None:
        """What is observed of the pair; None where there is none."""
        if not self.levels or len(self.edits) < 2:
            return None
        chosen = HarmfulPair(self.edits, self.levels, self.harmless, self.failure, self.choosing)
        return EditedTwice(chosen, first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, every edit, the choice of a pair, and images after it."""
        pairs = () if self.twice is None else (self.twice.chosen, self.twice)
        return Clean(), *self.edit_outcomes.values(), *pairs

    def observe(self, subject: Subject) -> Table:
        """Return the smallest breaking strengths of every image."""
        edited = {title: subject.read(observation) for title, observation in self.edit_outcomes.items()}
        # The edit that breaks an image first; of several at one
        # strength the one that is listed first
        smallest, number = torch.stack([results["strength"] for results in edited.values()]).min(0)
        # The same for every edit, as no edit is applied
        wrong = next(iter(edited.values()))["wrong"]
        table: Table = {f"strength@{title}": results["strength"] for title, results in edited.items()}
        table |= {f"held@{title}": results["held"] for title, results in edited.items()}
        table |= {f"again@{title}": _holds_again(results["values"]) for title, results in edited.items()}
        table |= {
            "strength": smallest,
            # No edit is to blame where none breaks the image, or where it fails as it is
            "first": number.double().masked_fill(smallest.isinf() | (wrong > 0), torch.nan),
            "reach": smallest.clamp_max(1.0),
            "wrong": wrong,
            "population": torch.full_like(smallest, float(subject.population)),
        }
        if self.twice is None:
            return table
        return table | pair_columns(subject.read(self.twice.chosen), subject.read(self.twice), len(smallest))

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return what holds over each range, by which strength half break, what the pair leaves, and the reach."""
        condition = f"given this population of {int(table['population'][0])} images"
        # The share that holds over the whole range: the strength is infinite there
        strengths = {**{edit.title: table[f"strength@{edit.title}"] for edit in self.edits}, EVERY: table["strength"]}
        holds = {name: Share(s.isinf().double(), condition=condition) for name, s in strengths.items()}
        medians = {MEDIAN.format(edit.title): self._median(edit, table, condition) for edit in self.edits}
        pair = {} if self.twice is None else reduce_pair(self.edits, table, condition)
        # min(1, s) averages to the area below the curve of images that hold
        reach = Mean(table["reach"], condition=condition, most=1.0)
        again = self._again(table)
        told = reach.restate(lambda score: replace(score, note=_join_notes(again, score.note)))
        return holds | medians | pair | {REACH: told}

    def _median(self, edit: Edit, table: Table, condition: str) -> Statistic:
        """Return the median breaking strength in the edit's own unit."""
        return BrokenMedian(table[f"strength@{edit.title}"], condition=condition).restate(partial(_in_own_unit, edit))

    def _again(self, table: Table) -> str:
        """Return how often an image that broke held again at a heavier strength."""
        broken = torch.stack([table[f"strength@{title}"].isfinite() for title in self.corruptions])
        again = torch.stack([table[f"again@{title}"] for title in self.corruptions])
        # What makes the smallest strength an upper bound: failing is not monotone
        count, total = int(again.sum()), int(broken.sum())
        words = f"in {count} of {total} cases an image that an edit broke held again at a heavier strength"
        return words if count else ""

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return the share of images that hold against the strength, of all edits and of each."""
        return edit_curves(self.edits, table, EVERY, self.in_words(table, scores).text)

    def in_words(self, table: Table, scores: Mapping[str, Score]) -> InWords:
        """Return how far all edits may go, how many images hold to the end, which edits break them first; the pair."""
        reach, held = scores[REACH], int(table["strength"].isinf().sum())
        assert reach.value is not None
        says = (
            f"{len(self.edits)} everyday edits may go {_percents(reach.value)} % of the way from mild to heavy"
            f"{_interval(reach)} until one of them breaks an image, on average; {held} of {reach.n} images hold to the "
            "end"
        )
        further = self._firsts(table), pair_in_words(self.edits, table, scores)
        return InWords(says, further=tuple(filter(None, further)))

    def _firsts(self, table: Table) -> str:
        """Return which edits break most images before all others do."""
        first = table["first"][~table["first"].isnan()].long()
        # argsort is stable: of edits that are first equally often, the earlier one
        counts = torch.bincount(first, minlength=len(self.edits))
        ranked = [number for number in counts.argsort(descending=True, stable=True).tolist() if counts[number]]
        named = [f"{self.edits[number].title} ({int(counts[number])})" for number in ranked[:SAID]]
        return f"Most often first: {', '.join(named)}." if named else ""


def _interval(score: Score) -> str:
    """Return the interval of a share in words."""
    if score.low is None or score.high is None:
        return ""
    return f" ({100 * score.confidence:g} %: {_percents(score.low)} to {_percents(score.high)} %)"


def _percents(share: float) -> str:
    """Return a share in percent, without the sign: whole from 10 on, else of two digits."""
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.2g}"


def _join_notes(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _holds_again(values: Float[Tensor, "images strengths"]) -> Float[Tensor, "images"]:
    """Return 1 where a point of the grid holds above one that fails."""
    fails = values > CLEARLY
    # The running count is above zero from the first failure on
    return ((fails.long().cumsum(1) > 0) & ~fails).any(1).double()


def _in_own_unit(edit: Edit, score: Score) -> Score:
    """Return a median of strengths in the edit's own unit."""
    unit = "ratio" if edit.parameter else "share"
    # In the edit's own unit the amount may fall as the strength rises (JPEG's
    # quality), so ends are sorted anew
    ends = [None if end is None else edit.amount(end) for end in (score.low, score.high)]
    known = [end for end in ends if end is not None]
    low, high = (min(known), max(known)) if len(known) == 2 else (None, None)
    value = None if score.value is None else edit.amount(score.value)
    words = f"in {edit.parameter}" if edit.parameter else "of the way from mild to heavy"
    better = "lower" if edit.amount(1.0) < edit.amount(0.0) else "higher"
    return replace(
        score, value=value, low=low, high=high, unit=unit, better=better, note=_join_notes(words, score.note)
    )
