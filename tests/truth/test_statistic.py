"""What a statistic says each unit moves it by is what it moves by, whichever kind it is."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from holdfast.numerics.statistics.drawn_pairs import DrawnMean, contributions
from holdfast.numerics.statistics.ratios import Ratio, RelativeDrop
from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Difference, Fixed, Mean, Share, ShareOfDraws, Statistic
from holdfast.numerics.statistics.two_way import TwoWayMean

N = 40
RANDOM = torch.Generator().manual_seed(5)
FIRST, SECOND = (torch.rand(N, generator=RANDOM, dtype=torch.float64) for _ in range(2))
HITS = (FIRST > 0.4).double()
SOME = torch.arange(N) % 3 > 0

KINDS: dict[str, Callable[[Tensor], Statistic]] = {
    "mean": lambda rows: Mean(FIRST[rows]),
    "share": lambda rows: Share(HITS[rows]),
    "of some rows": lambda rows: Mean(FIRST[rows], among=SOME[rows]),
    "share of draws": lambda rows: ShareOfDraws(FIRST[rows], draws=50),
    "two-way": lambda rows: TwoWayMean(torch.stack([FIRST, SECOND], 1)[rows]),
    "difference": lambda rows: Difference(Mean(FIRST[rows]), Share(HITS[rows])),
    "ratio": lambda rows: Ratio(Mean(FIRST[rows]), Mean(SECOND[rows])),
    "relative drop": lambda rows: RelativeDrop(Mean(FIRST[rows]), Mean(SECOND[rows])),
    "clusters": lambda rows: Share(
        torch.cat([HITS[rows], (SECOND[rows] > 0.5).double()]), torch.arange(len(rows)).repeat(2)
    ),
    "a drop of clusters": lambda rows: RelativeDrop(
        Mean(torch.cat([FIRST[rows], SECOND[rows]]), torch.arange(len(rows)).repeat(2)), Mean(FIRST[rows])
    ),
    "of some clusters": lambda rows: Mean(
        torch.cat([FIRST[rows], SECOND[rows]]), torch.arange(len(rows)).repeat(2), among=SOME[rows].repeat(2)
    ),
    "retold": lambda rows: Mean(FIRST[rows]).say("pixels"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_influences_are_what_a_number_changes_by(kind: str) -> None:
    """Without a unit the number changes by minus its influence over the others' number, to first order."""
    whole, all_rows = KINDS[kind](torch.arange(N)), torch.arange(N)
    value = whole.score().value
    assert value is not None
    changes = torch.tensor(
        [value - (KINDS[kind](all_rows[all_rows != row]).score().value or 0.0) for row in range(N)], dtype=torch.float64
    )
    influence = whole.influence()
    assert len(influence) == N
    assert float(influence.sum()) == pytest.approx(0, abs=1e-9)
    both = torch.corrcoef(torch.stack([changes, influence]))
    assert float(both[0, 1]) > 0.998


def test_a_difference_knows_that_both_are_of_the_same_images() -> None:
    near = Difference(Mean(FIRST), Mean(FIRST + 0.01 * SECOND)).score()
    far = Difference(Mean(FIRST), Mean(SECOND)).score()
    assert None not in (near.low, near.high, far.low, far.high)
    assert near.high - near.low < 0.3 * (far.high - far.low)  # pyright: ignore[reportOperatorIssue]


def test_images_that_take_no_part_are_not_counted_as_left_out() -> None:
    score = Mean(FIRST, among=SOME).score()
    assert (score.n, score.note) == (int(SOME.sum()), "")
    assert Mean(FIRST.masked_fill(~SOME, torch.nan)).score().note.endswith("undefined and left out")
    assert (Mean(FIRST, among=SOME).influence()[~SOME] == 0).all()


def test_what_is_drawn_counts_in_both_roles() -> None:
    values, negatives = FIRST[:20, None], (torch.arange(20) + 20)[:, None]
    parts = contributions(values, negatives, population=N)
    drawn = DrawnMean(values.mean(1), parts)
    assert drawn.score().n == 20
    # the negatives move it as much as the images whose negatives they are
    torch.testing.assert_close(drawn.influence()[:20], drawn.influence()[20:])


def test_a_number_that_was_given_moves_with_nothing() -> None:
    assert Fixed(Score(0.3, None, None, 7, "given")).influence().tolist() == [0.0] * 7


def test_nothing_is_worked_out_before_it_is_asked_for() -> None:
    asked: list[str] = []

    def tell(score: Score) -> Score:
        asked.append("score")
        return score

    retold = Mean(FIRST).restate(tell)
    retold.influence()
    assert asked == []
    retold.score()
    assert asked == ["score"]
