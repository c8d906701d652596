"""Lists of neighbours, pairs and thresholds of two encoders: by loops, on hand-made representations, by simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy
import torch
from torch import Tensor

from holdfast.core import Score
from holdfast.core.divergence import read_divergence as divergence
from holdfast.numerics.geometry import neighbour_lists as module
from holdfast.numerics.geometry.image_pairs import ImagePairs
from holdfast.numerics.geometry.neighbour_lists import (
    compare_lists,
    neighbour_lists,
    overlap_weights,
    rank_biased_weights,
)
from holdfast.numerics.statistics.list_means import list_mean
from holdfast.numerics.statistics.pair_ranks import pair_rank_correlation
from holdfast.parts.divergences.l1 import L1
from holdfast.parts.divergences.l2 import L2
from holdfast.runtime.errors import BadValue, NotEnough
from holdfast.storage.index_upgrade import Sides
from holdfast.workflows.compare_index import copies
from holdfast.workflows.compare_index.canaries import Canary, judge_canaries
from holdfast.workflows.compare_index.measures import of_vectors
from holdfast.workflows.compare_index.thresholds import (
    Distanced,
    Thresholds,
    scale,
    thresholds_at,
    thresholds_for,
    translation,
)

RUNS = 600
NONE = torch.empty(0, 2, dtype=torch.long)


def both(n: int, noise: float, seed: int, rare: bool = False) -> tuple[Tensor, Tensor]:
    """Representations of n images by an old encoder, and by one that sees them (or some of them) otherwise."""
    random = torch.Generator().manual_seed(seed)
    old, moved = torch.randn(n, 6, generator=random), noise * torch.randn(n, 6, generator=random)
    if rare:
        strange = (torch.rand(n, generator=random) < 0.1)[:, None]
        return old + 6 * strange, old + 6 * strange + moved * strange
    return old, old + moved


def listed(reps: Tensor, i: int, k: int, name: str, without: int | None = None) -> list[int]:
    """The nearest others, by a loop."""
    others = [j for j in range(len(reps)) if j not in (i, without)]
    apart = {j: float(divergence(name)(reps[i].double()[None], reps[j].double()[None])) for j in others}
    return sorted(others, key=lambda j: (apart[j], j))[:k]


def overlap(old: Tensor, new: Tensor, i: int, k: int, without: int | None = None) -> float:
    first, second = (set(listed(reps, i, k, "l2", without)) for reps in (old, new))
    return len(first & second) / k


def rank_biased(a: list[int], b: list[int], p: float) -> float:
    parts = [p ** (d - 1) for d in range(1, len(a) + 1)]
    shares = [len(set(a[:d]) & set(b[:d])) / d for d in range(1, len(a) + 1)]
    return sum(part * share for part, share in zip(parts, shares, strict=True)) / sum(parts)


@pytest.mark.parametrize("name", ["l2", "cosine", "l1"])
def test_lists_are_those_of_loops_and_it_is_told_how_many_there_are(name: str, monkeypatch) -> None:
    reps, _ = both(20, 0.0, 0)
    expected = [listed(reps, i, 7, name) for i in range(20)]
    assert neighbour_lists(reps, 7, divergence(name)).tolist() == expected
    told: list[int] = []
    monkeypatch.setattr(module, "TOLD", 8)
    assert neighbour_lists(reps, 7, divergence(name), told.append).tolist() == expected
    assert told == [8, 8, 4]


def test_an_image_is_not_its_own_neighbour_even_among_equals() -> None:
    reps = torch.tensor([[0.0], [0.0], [0.0], [0.0], [5.0]])
    assert neighbour_lists(reps, 2, L2()).tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1]]


def test_what_is_kept_and_what_each_image_does_to_it_are_those_of_loops() -> None:
    old, new = both(14, 0.6, 3)
    depth, p = 5, 0.8
    weights = torch.stack([overlap_weights(1, depth), overlap_weights(4, depth), rank_biased_weights(p, depth)])
    result = compare_lists(neighbour_lists(old, depth + 1, L2()), neighbour_lists(new, depth + 1, L2()), weights)

    def means(without: int | None) -> list[float]:
        images = [i for i in range(14) if i != without]
        shares = [[overlap(old, new, i, k, without) for i in images] for k in (1, 4)]
        lists = [[listed(reps, i, depth, "l2", without) for reps in (old, new)] for i in images]
        return [float(np.mean(values)) for values in (*shares, [rank_biased(a, b, p) for a, b in lists])]

    assert result.values.mean(1).tolist() == pytest.approx(means(None))
    assert result.values[1].tolist() == pytest.approx([overlap(old, new, i, 4) for i in range(14)])
    for j in range(14):
        assert result.without[:, j].tolist() == pytest.approx(means(j)), j


@pytest.mark.parametrize("change", ["rotated", "scaled", "permuted"])
def test_a_rotated_or_scaled_copy_changes_nothing_and_its_interval_has_a_width(change: str) -> None:
    old, _ = both(60, 0.0, 1)
    turn = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0)))[0]
    new = {"rotated": old @ turn, "scaled": 3 * old, "permuted": old[:, torch.randperm(6)]}[change]
    lists = [neighbour_lists(reps, 11, L2()) for reps in (old, new)]
    result = compare_lists(lists[0], lists[1], torch.stack([overlap_weights(10, 10)]))
    score = list_mean(result.values[0], result.without[0], 10)
    assert (score.value, score.high) == (1, 1)
    assert score.low == pytest.approx(0.025 ** (3 / 60))
    distanced = distances(old, new)
    rho = pair_rank_correlation(distanced.old, distanced.new, distanced.pairs.shares)
    assert rho.value == pytest.approx(1)
    assert rho.high == 1
    assert rho.low is not None
    assert rho.low < 0.7
    factor = 3 if change == "scaled" else 1
    limits = thresholds_at(distanced, 0.05)
    assert limits.new.value == pytest.approx(factor * limits.old.value, rel=1e-5)
    assert width(limits.new) > 0.02
    assert scale(distanced).value == pytest.approx(factor, rel=1e-5)
    if factor == 1:
        assert limits.change.value == pytest.approx(0, abs=2 / distanced.pairs.count)
        assert width(limits.kept) > 0
    fixed = thresholds_for(distanced, limits.old.value or 0.0)
    assert fixed.new.value == pytest.approx(factor * limits.old.value, rel=1e-5)
    assert width(fixed.new) > 0


def width(score: Score) -> float:
    assert score.low is not None
    assert score.high is not None
    return score.high - score.low


def distances(old: Tensor, new: Tensor, left_out: Tensor = NONE) -> Distanced:
    pairs = ImagePairs(len(old), left_out)
    return Distanced(pairs, pairs.distances(old, L2()), pairs.distances(new, L2()), L2())


def test_pairs_are_those_of_loops_but_for_those_left_out() -> None:
    reps, _ = both(9, 0.0, 2)
    pairs = ImagePairs(9, torch.tensor([[3, 1], [0, 8], [1, 3], [2, 2]]))
    expected = [(i, j) for i in range(9) for j in range(i + 1, 9) if (i, j) not in ((1, 3), (0, 8))]
    assert list(map(tuple, pairs.both.T.tolist())) == expected
    assert pairs.distances(reps, L1()).tolist() == pytest.approx(
        [float((reps[i] - reps[j]).abs().sum()) for i, j in expected]
    )
    values = pairs.distances(reps, L2())
    shares = pairs.shares(values)
    assert float(shares.mean()) == pytest.approx(float(values.mean()))
    own = [
        sum(float(v - values.mean()) for v, pair in zip(values, expected, strict=True) if i in pair) for i in range(9)
    ]
    assert ((shares - values.mean()) * 2 * pairs.count / 9).tolist() == pytest.approx(own, abs=1e-9)


def test_the_rank_correlation_is_that_of_scipy_and_its_influence_that_of_the_jackknife() -> None:
    old, new = both(60, 0.7, 5)
    distanced = distances(old, new)
    score = pair_rank_correlation(distanced.old, distanced.new, distanced.pairs.shares)
    assert score.value == pytest.approx(scipy.stats.spearmanr(distanced.old, distanced.new).statistic)
    without = []
    for j in range(60):
        left = [i for i in range(60) if i != j]
        fewer = distances(old[left], new[left])
        without.append(scipy.stats.spearmanr(fewer.old, fewer.new).statistic)
    error = math.sqrt(59 / 60 * float(np.square(without - np.mean(without)).sum()))
    assert score.value is not None
    reach = (math.atanh(score.high or 0) - math.atanh(score.low or 0)) / 2 * (1 - score.value**2)
    assert reach == pytest.approx(scipy.stats.t.ppf(0.975, 59) * error, rel=0.15)


def test_thresholds_allow_as_many_pairs_as_the_old_one() -> None:
    old, new = both(50, 0.4, 7)
    distanced = distances(old, 2 * new)
    limit = float(distanced.old.sort().values[61]) + 1e-9
    limits = thresholds_for(distanced, limit)
    assert limits.rate.value == pytest.approx(62 / 1225)
    assert int((distanced.new < limits.new.value).sum()) == 62
    assert limits.kept.value == pytest.approx(float((distanced.new < limit).double().mean()))
    assert limits.change.value == pytest.approx((limits.kept.value or 0) - 62 / 1225)
    by_rate = thresholds_at(distanced, 62 / 1225)
    assert by_rate.new.value == limits.new.value
    assert by_rate.old.value == float(distanced.old.sort().values[62])
    # a paired interval is the shorter one: what moves both shares cancels
    assert width(limits.new) < width(by_rate.new)
    rows = translation(distanced)
    assert [row.old for row in rows] == sorted(row.old for row in rows)
    assert all(row.low <= row.new <= row.high for row in rows)  # pyright: ignore[reportOperatorIssue]


def test_thresholds_that_no_pair_reaches_are_refused() -> None:
    distanced = distances(*both(30, 0.4, 1))
    with pytest.raises(NotEnough, match="use 142"):
        thresholds_at(distanced, 0.001)
    with pytest.raises(NotEnough, match=r"0\.001 with 0"):
        thresholds_for(distanced, 0.001)
    with pytest.raises(BadValue, match="got 1000"):
        thresholds_for(distanced, 1000.0)
    same = distances(torch.zeros(40, 2), torch.zeros(40, 2))
    with pytest.raises(NotEnough, match="rate"):
        thresholds_at(same, 0.05)
    assert pair_rank_correlation(same.old, same.new, same.pairs.shares).value is None


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "rare"), [(0.3, False), (1.0, False), (1.0, True)])
def test_intervals_hold_the_truth_as_often_as_they_promise(noise: float, rare: bool) -> None:
    """Of samples of 100 images; the truth of lists is the mean over samples, that of pairs a large sample's."""
    n, rate = 100, 0.03
    large = distances(*both(1500, noise, 10**6, rare))
    limits = thresholds_at(large, rate)
    threshold = limits.old.value or 0.0
    fixed = thresholds_for(large, threshold)
    truth = {"rho": pair_rank_correlation(large.old, large.new, large.pairs.shares), "scale": scale(large)}
    truth |= {"new at rate": limits.new, "old at rate": limits.old, "kept at rate": limits.kept}
    truth |= {"new": fixed.new, "rate": fixed.rate, "kept": fixed.kept, "change": fixed.change}
    weights = torch.stack([overlap_weights(1, 10), overlap_weights(10, 10), rank_biased_weights(0.8, 10)])
    scores: dict[str, list[Score]] = {}
    for seed in range(RUNS):
        old, new = both(n, noise, seed, rare)
        result = compare_lists(neighbour_lists(old, 11, L2()), neighbour_lists(new, 11, L2()), weights)
        named = zip(("overlap@1", "overlap@10", "rbo"), result.values, result.without, (1, 10, 5), strict=True)
        found = {name: list_mean(values, without, depth) for name, values, without, depth in named}
        some = distances(old, new)
        found |= {"rho": pair_rank_correlation(some.old, some.new, some.pairs.shares), "scale": scale(some)}
        by_rate, by_threshold = thresholds_at(some, rate), thresholds_for(some, threshold)
        found |= {"new at rate": by_rate.new, "old at rate": by_rate.old, "kept at rate": by_rate.kept}
        found |= {"new": by_threshold.new, "rate": by_threshold.rate}
        found |= {"kept": by_threshold.kept, "change": by_threshold.change}
        for name, score in found.items():
            scores.setdefault(name, []).append(score)
    least = 0.95 - 3 * math.sqrt(0.05 * 0.95 / RUNS)
    for name, several in scores.items():
        mean = float(np.mean([score.value for score in several]))
        known = mean if name not in truth else truth[name].value
        held = [s.low is None or s.high is None or s.low <= known <= s.high for s in several]
        assert np.mean(held) >= least, (name, np.mean(held), known)


@pytest.mark.parametrize(("noise", "rare"), [(1e-4, 0.0), (1e-3, 0.0), (0.0, 0.003), (0.0, 0.02)])
def test_samples_in_which_all_lists_agree_hold_the_truth(noise: float, rare: float) -> None:
    """Small changes of all images, and large ones of few: many samples of 60 images have none, and say 1 at most."""
    weights = torch.stack([overlap_weights(1, 10), overlap_weights(10, 10), rank_biased_weights(0.9, 10)])
    scores: list[list[Score]] = []
    for seed in range(120):
        random = torch.Generator().manual_seed(seed)
        old = torch.randn(60, 6, generator=random)
        hit = torch.rand(60, generator=random) < rare
        new = old + (noise + hit[:, None]) * torch.randn(60, 6, generator=random)
        result = compare_lists(neighbour_lists(old, 11, L2()), neighbour_lists(new, 11, L2()), weights)
        triples = zip(result.values, result.without, (1, 10, 5), strict=True)
        scores.append([list_mean(values, without, depth) for values, without, depth in triples])
    for several in zip(*scores, strict=True):
        truth = float(np.mean([score.value for score in several]))
        held = [(score.low or 0) <= truth <= (score.high or 0) for score in several]
        assert np.mean(held) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 120)
    if not rare or rare < 0.01:  # many samples have no exception
        assert np.mean([several[0].value == 1 for several in scores]) > 0.5


def test_recall_is_that_of_loops_and_its_change_is_paired() -> None:
    old, new = both(60, 0.05, 4)
    random = torch.Generator().manual_seed(0)
    edits = [0.9 * torch.randn(60, 6, generator=random) for _ in range(2)]
    ranks = [copies.ranks_of_originals(reps.double(), [reps + edit for edit in edits], L2()) for reps in (old, new)]
    for reps, found in zip((old, new), ranks, strict=True):
        for edit, row in zip(edits, found, strict=True):
            apart = torch.cdist((reps + edit).double(), reps.double())
            assert row.tolist() == (1 + (apart < apart.diagonal()[:, None]).sum(1)).tolist()
    scores = copies.recall(ranks[0], ranks[1], 3)
    assert scores["old"].value == pytest.approx(float((ranks[0] <= 3).double().mean()))
    assert scores["change"].value == pytest.approx((scores["new"].value or 0) - (scores["old"].value or 0))
    assert width(scores["change"]) < 0.7 * math.hypot(width(scores["old"]), width(scores["new"]))
    labels = torch.arange(60) % 3
    first = copies.ranks_of_class(neighbour_lists(old, 59, L2()), labels)[0]
    assert first.tolist() == [
        1 + next(place for place, j in enumerate(listed(old, i, 59, "l2")) if labels[j] == labels[i]) for i in range(60)
    ]
    few = copies.ranks_of_class(neighbour_lists(old, 2, L2()), torch.tensor([7] + [1, 2] * 29 + [1]))[0]
    assert few[0].isnan()
    assert few.isinf().any()


def test_copies_are_missed_at_the_thresholds_of_each_encoder() -> None:
    old, new = both(60, 0.05, 8)
    distanced = distances(old, 2 * new)
    edit = 0.5 * torch.randn(60, 6, generator=torch.Generator().manual_seed(3))
    copied = [old + edit], [2 * (new + edit)]
    for limits in (thresholds_at(distanced, 0.02), thresholds_for(distanced, 1.4)):
        scores = copies.score_misses(distanced, limits, (old, 2 * new), copied, L2())
        apart = edit.norm(dim=1).double()
        for name, moved, limit in (
            ("old", apart, limits.old),
            ("new", 2 * apart, limits.new),
            ("kept", 2 * apart, limits.old),
        ):
            assert scores[name].value == pytest.approx(float((moved >= limit.value).double().mean())), name
            assert width(scores[name]) > 0
        assert scores["change"].value == pytest.approx((scores["new"].value or 0) - (scores["old"].value or 0))


def test_the_interval_of_lists_is_of_images_in_both_roles() -> None:
    """Images that all keep half, and that are in the lists of others to a different degree."""
    values = torch.tensor([0.4, 0.6]).repeat(50)
    quiet = (values.sum() - values) / 99  # each image counts by its own list alone
    alone, known = (list_mean(values, without, 50) for without in (quiet, quiet + 0.004 * values.flip(0).sin()))
    assert width(alone) == pytest.approx(2 * 1.984 * float(values.std()) / 10, rel=0.2)
    moved = quiet + 0.003 * (torch.arange(100) % 5 == 0)
    assert width(list_mean(values, moved, 50)) > 1.4 * width(alone)
    assert width(known) > width(alone)


def test_canaries_are_held_against_the_threshold_of_each_encoder() -> None:
    """Distances are twice as long, and one pair has moved from one side to the other."""
    old = torch.tensor([[0.0], [1.0], [3.0], [3.5], [7.0], [9.0]])
    new = torch.tensor([[0.0], [2.0], [6.0], [9.5], [14.0], [18.0]])
    limits = [Score(value, value - 0.1, value + 0.1, 6, "t") for value in (1.2, 2.4)]
    limits = Thresholds(limits[0], limits[1], *[Score(0.1, 0.0, 0.2, 6, "t")] * 3, (None, torch.zeros(6)))
    pairs = [(0, 1, "together"), (2, 3, "together"), (4, 5, "apart"), (0, 1, "apart")]
    rows = judge_canaries([Canary(*pair) for pair in pairs], list("abcdef"), (old, new), limits, L2())
    assert [(row.first, row.expected, row.outcome) for row in rows] == [
        ("c", "together", "broken"),
        ("a", "apart", "wrong before and after"),
        ("a", "together", "holds"),
        ("e", "apart", "holds"),
    ]
    assert rows[2].sides == Sides(old="together", new="together", kept="apart")
    assert not any(row.near for row in rows)
    close = replace(limits, new=Score(2.4, 1.9, 3.6, 6, "t"))
    near = judge_canaries([Canary(*pair) for pair in pairs], list("abcdef"), (old, new), close, L2())
    assert [row.near for row in near] == [True, True, True, False]


def test_old_and_new_vectors_are_compared_image_by_image() -> None:
    old = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    turned = torch.stack([-old[:, 1], old[:, 0], -old[:, 3], old[:, 2]], 1)  # by a right angle
    new = torch.where((torch.arange(50) < 5)[:, None], turned, 3 * old)
    entries = of_vectors(old, new)
    assert entries["cosine"].scores["mean"].value == pytest.approx(1)
    assert entries["cosine"].scores["lowest"].value == pytest.approx(0, abs=1e-12)
    below = entries["cosine_below"].scores["mean"]
    assert (below.value, below.n) == (0.1, 50)
    same = of_vectors(old, 2 * old)["cosine"].scores["mean"]
    assert same.value == pytest.approx(1)
    assert same.low is not None
    assert 1 - 1e-6 < same.low < 1  # so that a gate can hold it
    assert of_vectors(old, old[:, :3]) == {}
