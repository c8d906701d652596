"""Pairs of a circle of images: which they are, that their numbers are exact, and what their intervals hold."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks are no part of the package

from benchmarks import laws

from holdfast.auditing.plan import Plan
from holdfast.core import Measure, Score
from holdfast.core.divergence import read_divergence as as_divergence
from holdfast.numerics import statistics
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.circle import Circle
from holdfast.numerics.geometry.matching import look_alikes, matches
from holdfast.numerics.statistics import sampled_pairs, universal
from holdfast.numerics.statistics.jackknife import of_function, over_classes
from holdfast.numerics.statistics.sampled_pairs import EXACT, SAMPLED, circle, partners
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.divergences.kl import Kl
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.shared import all_pairs
from holdfast.parts.observations.shared import gallery
from holdfast.report.html import write_report
from holdfast.runtime.errors import BadValue
from json_records import run_audit

PLACED = ("universal_quantile", "corruption_drift", "transfer_quantile", "certified_drift", "center_smoothing")
CONTRIBUTED = ("uniformity", "class_uniformity")
MATCHED = ("matching", "edited_matching")


def world(images: int, seed: int = 0, strong: bool = False, far: float = 1.0) -> laws.Seen:
    """One of two encoders; attacks move representations so many times as far as usual."""
    drawn = laws.World(images, strong, torch.Generator().manual_seed(seed))
    drawn.drifts = far * drawn.drifts
    return laws.Seen(drawn, 0)


def measured(name: str, pairs_of: int | None) -> Measure:
    return replace(laws.measure(name), pairs_of=pairs_of)


def compared(images: int, drawn: Circle | None) -> Tensor:
    """Which pairs are compared, [N, N] and symmetric, image by image around the circle."""
    if drawn is None:
        return ~torch.eye(images, dtype=torch.bool)
    pairs = torch.zeros(images, images, dtype=torch.bool)
    for place in range(images):
        for ahead in range(1, drawn.reach + 1):
            one, other = drawn.order[[place, (place + ahead) % images]]
            pairs[one, other] = pairs[other, one] = True
    return pairs


@pytest.mark.parametrize(("images", "reach", "side"), [(7, 1, 3), (7, 3, 3), (20, 4, 512), (64, 31, 16), (65, 20, 16)])
def test_blocks_hold_every_pair_of_the_circle_once(images, reach, side) -> None:
    drawn = Circle(torch.randperm(images, generator=torch.Generator().manual_seed(images)), reach)
    times = torch.zeros(images, images, dtype=torch.long)
    for rows, columns, pairs in drawn.blocks(side):
        assert max(len(rows), len(columns)) <= side
        times[rows[:, None], columns] += 1 if pairs is None else pairs.long()
    assert torch.equal(times + times.T, compared(images, drawn).long())


def test_each_image_is_compared_with_as_many_others() -> None:
    for images, pairs_of in ((100, 50), (101, 3), (90, 89)):
        drawn = circle(0, images, pairs_of)
        assert drawn is not None
        assert (compared(images, drawn).sum(1) == partners(images, pairs_of)).all()
        assert images * drawn.reach <= max(images, pairs_of * (pairs_of - 1) // 2)


def test_all_pairs_of_up_to_a_hundred_thousand_images_and_of_more_as_many_as_half_of_these_have() -> None:
    assert circle(0, EXACT) is None
    most = SAMPLED * (SAMPLED - 1) // 2
    for images in (EXACT + 1, EXACT + 2, 2 * EXACT, 10**6, 10**7):
        assert 0.99 * most < images * partners(images) // 2 <= most
    assert partners(100, 100) == partners(100) == 99


def test_a_circle_follows_from_the_seed() -> None:
    one, same, other = (circle(seed, 300, 40) for seed in (0, 0, 1))
    assert torch.equal(one.order, same.order)
    assert not torch.equal(one.order, other.order)
    assert one.order.sort().values.tolist() == list(range(300))


def test_every_pair_is_as_likely_as_any() -> None:
    counts = sum(compared(12, circle(seed, 12, 5)).double() for seed in range(600))
    chance = partners(12, 5) / 11
    expected, deviation = 600 * chance, math.sqrt(600 * chance * (1 - chance))
    off = counts[~torch.eye(12, dtype=torch.bool)]
    assert float((off - expected).abs().max()) < 4.5 * deviation


@pytest.mark.parametrize("name", [*PLACED, *CONTRIBUTED, *MATCHED])
def test_as_many_pairs_as_there_are_change_nothing(name) -> None:
    subject = world(60)
    usual, exact = (measured(name, number) for number in (None, 60))
    table, same = usual.observe(subject), exact.observe(subject)
    assert all(torch.equal(table[column].nan_to_num(-1), same[column].nan_to_num(-1)) for column in table)
    assert usual.score(table) == exact.score(same)
    assert "compared with" not in usual.score(table).popitem()[1].interval


@pytest.mark.parametrize("name", PLACED)
def test_drifts_lie_among_the_pairs_of_the_circle(name) -> None:
    """Quantiles and shares near by brute force over these pairs, and a score that says how many they are."""
    subject, measure = world(150), measured(name, 60)
    pairs, table = compared(150, measure.circle(subject)), measure.observe(subject)
    clean = subject.read(laws.Clean())["reps"]
    if name == "center_smoothing":
        clean = torch.nn.functional.normalize(clean, dim=1) if measure.certificate.normalised else clean
    apart = torch.cdist(clean, clean, compute_mode="donot_use_mm_for_euclid_dist")
    columns = {
        "universal_quantile": ("drift@10", "quantile@10", "near@10"),
        "transfer_quantile": ("drift@from a", "quantile@from a", "near@from a"),
        "certified_drift": ("drift l2 attack", "attack", "near attack"),
        "center_smoothing": ("radius", "quantile", "near"),
    }
    if name in columns:
        drift, quantile, near = (table[column] for column in columns[name])
        placed = ~drift.isnan()
        expected = (apart[pairs] <= drift[placed, None]).double().mean(1)
        torch.testing.assert_close(quantile[placed], expected)
        middle = drift[placed].sort().values[[(int(placed.sum()) - 1) // 2, int(placed.sum()) // 2]]
        own = torch.stack([((apart <= limit) & pairs).sum(1) / pairs.sum(1) for limit in middle]).double().mean(0)
        torch.testing.assert_close(near, own, rtol=0, atol=1e-6)
    score = list(measure.score(table).values())[-1]
    assert f"; each of 150 images compared with {partners(150, 60)} others" in score.interval
    assert score.low <= score.value < score.high
    assert measure.influence(table).isfinite().all()


def test_both_orders_of_a_pair_count_where_they_differ() -> None:
    bank, drawn = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)), circle(0, 40, 15)
    pairs, apart = compared(40, drawn), pairwise.pairwise(bank, bank, Kl())
    limits = apart[pairs][:3] * (1 + 1e-9)  # beside a distance, whose rounding differs
    torch.testing.assert_close(
        pairwise.share_below(bank, limits, Kl(), drawn), (apart[pairs] <= limits[:, None]).double().mean(1)
    )
    both = torch.stack([((apart <= v) & pairs).sum(1) + ((v >= apart.T) & pairs).sum(1) for v in limits], 1)
    torch.testing.assert_close(
        pairwise.near(bank, limits, Kl(), drawn), both / (2 * pairs.sum(1, keepdim=True)).double()
    )


@pytest.mark.parametrize("name", CONTRIBUTED)
def test_an_image_contributes_what_its_pairs_do(name) -> None:
    """The jackknife of the pairs of the circle, by brute force; of each class where the measure is of classes."""
    subject, measure = world(100), measured(name, 12)
    labels = subject.labels if name == "class_uniformity" else torch.zeros(100, dtype=torch.long)
    clean = torch.nn.functional.normalize(subject.read(laws.Clean())["reps"].double(), dim=1)
    expected = torch.empty(100, dtype=torch.float64)
    for own in (labels == number for number in labels.unique()):
        count = int(own.sum())
        pairs = compared(count, circle(subject.seed, count, 12)).double()
        weighted = pairs * (-2 * torch.cdist(clean[own], clean[own]).square()).exp()
        total, lost = weighted.sum(), 2 * weighted.sum(1)
        without = -((total - lost) / (pairs.sum() - 2 * pairs.sum(1))).log()
        expected[own] = of_function(-float((total / pairs.sum()).log()), without)
    table = measure.observe(subject)
    if name == "class_uniformity":
        torch.testing.assert_close(table["own"], expected)
        expected = over_classes(expected, labels)
    torch.testing.assert_close(table["uniformity"], expected)
    score = list(measure.score(table).values())[-1]
    largest = int(labels.bincount().max())
    assert f"; each of {largest} images compared with {partners(largest, 12)} others" in score.interval
    assert not score.note


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("name", ["l2", "kl"])
def test_a_threshold_is_that_of_the_pairs_of_the_circle(name, by_class) -> None:
    subject, drawn = world(100), circle(0, 100, 40)
    clean, labels = subject.read(laws.Clean())["reps"], subject.labels if by_class else None
    thumbnails = torch.rand(100, 16, generator=torch.Generator().manual_seed(0))
    close = compared(100, drawn).nonzero()[::40]  # some of these pairs look alike
    thumbnails[close[:, 0]] = thumbnails[close[:, 1]]
    pairs, apart = compared(100, drawn), pairwise.pairwise(clean, clean, as_divergence(name))
    alike = look_alikes(thumbnails)
    pairs[alike[:, 0], alike[:, 1]] = pairs[alike[:, 1], alike[:, 0]] = False
    pairs &= True if labels is None else labels[:, None] != labels
    count = int(pairs.sum()) // (1 if name == "kl" else 2)
    values = apart[pairs].sort().values
    result = matches(clean, thumbnails, values[[5, 900]], 0.02, as_divergence(name), labels, drawn)
    assert (result.pairs, result.allowed) == (count, math.floor(0.02 * count))
    assert result.threshold == pytest.approx(float(values[result.allowed * (1 if name == "kl" else 2)]), rel=1e-12)
    inside = ((apart <= result.threshold * (1 + 1e-12)) & pairs).double()
    assert float(result.near.mean()) == pytest.approx(float(inside.sum() / pairs.sum()))
    own, of, share = inside.sum(0) + inside.sum(1), pairs.sum(0) + pairs.sum(1), inside.sum() / pairs.sum()
    torch.testing.assert_close(result.near, share + 100 / int(of.sum()) * (own - share * of), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MATCHED)
def test_a_threshold_says_of_which_pairs_it_is(name) -> None:
    subject, measure = world(100), measured(name, 40)
    table = measure.observe(subject)
    assert table["pairs"][0] == 100 * partners(100, 40) / 2
    score = list(measure.score(table).values())[-1]
    assert f"; each of 100 images compared with {partners(100, 40)} others" in score.interval
    assert "700 pairs of 100 images match" in score.note
    few = measured(name, 15).score(measured(name, 15).observe(subject)).popitem()[1]
    assert "images (pairs_of) or a larger rate" in few.note
    assert few.value is None


def test_what_an_image_moves_is_what_its_weight_moves() -> None:
    """The derivative of the share of pairs by an image's weight, by finite differences; all pairs, and a circle's."""
    random = torch.Generator().manual_seed(0)
    event = (torch.rand(9, 9, generator=random, dtype=torch.float64) < 0.4).double().triu(1)
    event += event.T.clone()
    for drawn in (None, circle(0, 9, 6)):
        pairs = compared(9, drawn).double()
        moves = sampled_pairs.moves((event * pairs).sum(1) / pairs.sum(1))

        def share(weight: Tensor, pairs: Tensor = pairs) -> float:
            both = weight[:, None] * weight * pairs
            return float((both * event).sum() / both.sum())

        for image in range(9):
            weight = torch.ones(9, dtype=torch.float64)
            weight[image] += 1e-6
            assert float(moves[image]) == pytest.approx((share(weight) - share(torch.ones(9))) / 1e-6, abs=1e-5)


def test_where_no_pair_lies_below_the_pairs_that_were_compared_count() -> None:
    """Half of them are independent: the limit is that of so many trials without a hit."""
    quantiles, near = torch.zeros(2, 200, dtype=torch.float64)
    score = universal.median(quantiles, near, partners=20)
    assert score.high == pytest.approx(statistics.clopper_pearson(0, 200 * 20 / 4)[1])


def coverage(name: str, images: int, pairs_of: int, runs: int, strong: bool, far: float = 1.0) -> tuple[float, float]:
    """Return how often a circle's interval holds the value of all pairs of its images, and that of the population."""
    sampling, whole = measured(name, pairs_of), measured(name, None)

    def headline(part: Measure, size: int, seed: int) -> Score:
        return list(part.score(part.observe(world(size, seed, strong, far))).values())[-1]

    truths = [headline(whole, 800, 7000 + run).value for run in range(30)]
    truth, held = sum(truths) / len(truths), torch.zeros(2)
    for run in range(runs):
        score, exact = (headline(part, images, run) for part in (sampling, whole))
        held += torch.tensor([score.low <= value <= score.high for value in (exact.value, truth)])
    return tuple((held / runs).tolist())


def slack(runs: int) -> float:
    """Two and a half standard deviations of a share simulated so often."""
    return 2.5 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize("name", [pytest.param("universal_quantile", marks=pytest.mark.slow), "uniformity"])
def test_intervals_hold_for_all_images_and_for_the_population(name) -> None:
    """A sample of the slow test: were the pairs that are left out counted as compared, fewer would hold."""
    for value in coverage(name, 600, 60, 100, False, far=2.5):
        assert value >= 0.95 - slack(100)


@pytest.mark.slow(minutes=20)
@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("name", ["universal_quantile", "uniformity", "matching"])
def test_intervals_hold_for_three_thousand_images(name, strong) -> None:
    for value in coverage(name, 3000, 150, 250, strong):
        assert value >= 0.95 - slack(250)


def test_more_images_never_widen_an_interval() -> None:
    """As many pairs as 200 images have: of 200, 400, 800 and 1,600 images; means over worlds."""
    widths = []
    for images in (200, 400, 800, 1600):
        scores = [
            measured("uniformity", 200).score(measured("uniformity", 200).observe(world(images, seed)))
            for seed in range(12)
        ]
        widths.append(sum(score["uniformity"].high - score["uniformity"].low for score in scores) / len(scores))
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.5 * widths[0]


@pytest.mark.parametrize("name", ["universal_quantile", "matching", "uniformity", "class_uniformity"])
def test_an_estimate_compares_fewer_pairs(name, monkeypatch) -> None:
    """A measure of few images is timed as it is; of more, on fewer pairs, and all take so many times as long."""
    subject, measure = world(900), measured(name, None)
    assert measure.shrink_for_timing(subject) == (measure, 1.0)
    monkeypatch.setattr(all_pairs, "TIMED", 20)
    monkeypatch.setattr(sampled_pairs, "SIDE", 16)
    images = int(subject.labels.bincount().max()) if name == "class_uniformity" else 900
    fewer, times = measure.shrink_for_timing(subject)
    assert fewer == replace(measure, pairs_of=20)
    assert times == pytest.approx((images - 1) / (partners(images, 20) + 2 * 16))
    assert list(fewer.score(fewer.observe(subject)).values())[-1].interval.endswith("others")
    assert measured(name, 10).shrink_for_timing(subject) == (measured(name, 10), 1.0)


def test_too_few_images_are_refused_before_the_audit() -> None:
    with pytest.raises(BadValue, match="pairs_of"):
        UniversalQuantile(pairs_of=2).check(["a", "b", "c"])
    with pytest.raises(BadValue, match=r"universal_quantile\.pairs_of"):
        UniversalQuantile(pairs_of=0)
    with pytest.raises(BadValue, match="pairs_of"):
        circle(0, 300, 2)


@pytest.mark.slow
def test_an_audit_says_whose_pairs_were_compared(tmp_path, monkeypatch) -> None:
    """In the score, its parameters and the captions of pictures; shards do not matter."""
    monkeypatch.setattr(gallery, "PAIRS_OF", 50)
    measure = UniversalQuantile(Pgd(3), pairs_of=30)
    records = []
    for shard in (5, 12):
        plan = Plan(("zoo:digits-simclr",), "digits", (measure,), images=100, attacked=12, seed=3, batch_size=shard)
        records.append(run_audit(plan, tmp_path / str(shard)))
    ours, theirs = (record["encoders"][0]["measures"]["universal_quantile"] for record in records)
    assert ours["part"]["pairs_of"] == 30
    assert ours["scores"] == theirs["scores"]
    assert "each of 100 images compared with 8 others" in ours["scores"]["3 steps"]["interval"]
    for entry in records[0]["encoders"][0]["gallery"]:
        assert entry["placed_among"] == 50
        share = entry["quantile"] * 50 * 49 / 2
        assert share == pytest.approx(round(share), abs=1e-6)
    page = write_report(tmp_path / "5")
    assert "of the distances between 50 of the clean images" in Path(page).read_text(encoding="utf-8")
