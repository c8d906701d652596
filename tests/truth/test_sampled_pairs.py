"""Pairs of a sample of images: which images these are, that their numbers are exact, and what their intervals hold."""

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
from holdfast.auditing.run import run_audit
from holdfast.core import HoldfastError, Measure, Score
from holdfast.numerics.statistics import sampled_pairs
from holdfast.numerics.statistics.sampled_pairs import EXACT, SAMPLED, sample
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.observations.shared import gallery
from holdfast.report.html import write_report

IDS = [f"image-{number}" for number in range(300)]
PLACED = ("universal_quantile", "corruption_drift", "transfer_quantile", "certified_drift", "center_smoothing")
CONTRIBUTED = ("uniformity", "class_uniformity")
MATCHED = ("matching", "edited_matching")


class Part:
    """Some images of a world's encoder, in an order of their own, all of them attacked."""

    relevance, trained_apart = None, False

    def __init__(self, whole: laws.Seen, rows: Tensor):
        self.whole, self.rows, self.encoder, self.seed = whole, rows, whole.encoder, whole.seed
        self.population = self.attacked = len(rows)
        self.labels, self.ids = whole.labels[rows], [whole.ids[row] for row in rows.tolist()]

    def read(self, observation) -> dict[str, Tensor]:
        return {name: values[self.rows] for name, values in self.whole.read(observation).items()}

    def refusal(self, observation) -> str:
        return ""

    def reached(self, ball) -> list[Tensor]:
        return [points[self.rows] for points in self.whole.reached(ball)]


def world(images: int, seed: int = 0, strong: bool = False, far: float = 1.0) -> laws.Seen:
    """One of two encoders; attacks move representations so many times as far as usual."""
    drawn = laws.World(images, strong, torch.Generator().manual_seed(seed))
    drawn.drifts = far * drawn.drifts
    return laws.Seen(drawn, 0)


def measured(name: str, pairs_of: int | None) -> Measure:
    return replace(laws.measure(name), pairs_of=pairs_of)


def test_a_sample_follows_from_the_seed_and_the_ids_alone() -> None:
    drawn = {IDS[place] for place in sample(0, IDS, 40).tolist()}
    assert len(drawn) == 40
    backwards = IDS[::-1]
    assert {backwards[place] for place in sample(0, backwards, 40).tolist()} == drawn
    assert {IDS[place] for place in sample(1, IDS, 40).tolist()} != drawn
    assert sample(0, IDS, 40).tolist() == sorted(sample(0, IDS, 40).tolist())
    # of fewer images those that are left, and others in the place of the rest
    half = IDS[:150]
    assert drawn & set(half) <= {half[place] for place in sample(0, half, 40).tolist()}


def test_every_image_is_as_likely_as_any() -> None:
    counts = torch.zeros(len(IDS))
    for seed in range(200):
        counts[sample(seed, IDS, 60)] += 1
    deviation = (counts - 200 * 60 / 300) / math.sqrt(200 * 0.2 * 0.8)
    assert float(deviation.abs().max()) < 4.5
    assert float(deviation.std()) == pytest.approx(1, abs=0.2)


def test_all_pairs_of_up_to_a_hundred_thousand_images() -> None:
    ids = list(map(str, range(EXACT + 1)))
    assert sample(0, ids[:EXACT]) is None
    assert len(sample(0, ids)) == SAMPLED
    assert sample(0, ids, EXACT + 1) is None
    assert sample(0, IDS, len(IDS)) is None


@pytest.mark.parametrize("name", [*PLACED, *CONTRIBUTED, *MATCHED])
def test_as_many_as_there_are_images_change_nothing(name) -> None:
    subject = world(60)
    usual, exact = (measured(name, number) for number in (None, 60))
    table, same = usual.observe(subject), exact.observe(subject)
    assert all(torch.equal(table[column].nan_to_num(-1), same[column].nan_to_num(-1)) for column in table)
    assert usual.score(table) == exact.score(same)
    assert "sampled" not in usual.score(table).popitem()[1].interval


@pytest.mark.parametrize("name", PLACED)
def test_drifts_lie_among_the_pairs_of_the_sample(name) -> None:
    """Quantiles and shares near by brute force over the sampled images, and a score that says whose pairs these are."""
    subject, measure = world(150), measured(name, 60)
    sampled, table = sample(subject.seed, subject.ids, 60), measure.observe(subject)
    clean = subject.read(laws.Clean())["reps"]
    if name == "center_smoothing":
        clean = torch.nn.functional.normalize(clean, dim=1) if measure.certificate.normalised else clean
    apart = torch.cdist(clean[sampled], clean[sampled], compute_mode="donot_use_mm_for_euclid_dist")
    pairs = apart[torch.triu(torch.ones_like(apart), 1) > 0]
    columns = {
        "universal_quantile": ("drift@10", "quantile@10", "near@10"),
        "transfer_quantile": ("drift@from a", "quantile@from a", "near@from a"),
        "certified_drift": ("drift l2 attack", "attack", "near attack"),
        "center_smoothing": ("radius", "quantile", "near"),
    }
    if name in columns:
        drift, quantile, near = (table[column] for column in columns[name])
        placed = ~drift.isnan()
        expected = (pairs <= drift[placed, None]).double().mean(1)
        torch.testing.assert_close(quantile[placed], expected)
        assert float(near.nanmean()) == pytest.approx(float(expected.quantile(0.5)))
    for column in (column for column in table if column.startswith("near")):
        assert (~table[column].isnan()).nonzero()[:, 0].tolist() == sampled.tolist()
    score = list(measure.score(table).values())[-1]
    assert "; pairs of 60 images sampled from 150" in score.interval
    assert score.low <= score.value < score.high
    assert measure.influence(table).isfinite().all()


@pytest.mark.parametrize("name", CONTRIBUTED)
def test_a_sample_contributes_as_it_would_alone(name) -> None:
    """Of each class where the measure is of classes; what is not sampled is as if it were not there."""
    subject, measure = world(100), measured(name, 12)
    labels = subject.labels if name == "class_uniformity" else torch.zeros(100, dtype=torch.long)
    groups = [(labels == number).nonzero()[:, 0] for number in labels.unique()]
    rows = torch.cat([own[sample(subject.seed, [subject.ids[i] for i in own.tolist()], 12)] for own in groups])
    table, alone = measure.observe(subject), measured(name, None).observe(Part(subject, rows.sort().values))
    kept = table["uniformity"][~table["uniformity"].isnan()]
    assert len(kept) == len(rows)
    torch.testing.assert_close(kept, alone["uniformity"], rtol=1e-12, atol=1e-12)
    ours, theirs = (list(measure.score(some).values())[-1] for some in (table, alone))
    assert (ours.value, ours.n) == (pytest.approx(theirs.value), theirs.n)
    assert (ours.low, ours.high) == (pytest.approx(theirs.low), pytest.approx(theirs.high))
    assert f"; pairs of {len(rows)} images sampled from 100" in ours.interval
    assert not ours.note
    assert "sampled" not in theirs.interval


@pytest.mark.parametrize("name", MATCHED)
def test_a_threshold_is_that_of_the_sample_alone(name) -> None:
    subject, measure = world(100), measured(name, 40)
    rows = sample(subject.seed, subject.ids, 40)
    table, alone = measure.observe(subject), measured(name, None).observe(Part(subject, rows))
    assert table["pairs"][0] == 40 * 39 / 2
    assert table["threshold"][0] == alone["threshold"][0]
    torch.testing.assert_close(table["near"][rows], alone["near"])
    score = list(measure.score(table).values())[-1]
    assert "; pairs of 40 images sampled from 100" in score.interval
    assert "pairs of 40 images match" in score.note
    few = measured(name, 15).score(measured(name, 15).observe(subject)).popitem()[1]
    assert "images (pairs_of) or a larger rate" in few.note
    assert few.value is None


@pytest.mark.parametrize("name", [*PLACED, "uniformity"])
def test_the_order_of_images_decides_nothing(name) -> None:
    subject, measure = world(60), measured(name, 25)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    table, other = measure.observe(Part(subject, torch.arange(60))), measure.observe(Part(subject, order))
    for column in table:
        torch.testing.assert_close(table[column][order], other[column], equal_nan=True, rtol=1e-12, atol=1e-12)


def test_what_an_image_moves_is_what_its_weight_moves() -> None:
    """The derivative of the share of pairs by a sampled image's weight, by finite differences; others move nothing."""
    random = torch.Generator().manual_seed(0)
    event = (torch.rand(7, 7, generator=random, dtype=torch.float64) < 0.4).double().triu(1)
    event += event.T.clone()
    rows = torch.tensor([0, 2, 3, 5, 6, 8, 9])
    moves = sampled_pairs.moves(sampled_pairs.spread(event.sum(1) / 6, rows, 10))
    assert moves[[1, 4, 7]].tolist() == [0, 0, 0]
    pairs = 1 - torch.eye(7, dtype=torch.float64)

    def share(weight: Tensor) -> float:
        both = weight[:, None] * weight * pairs
        return float((both * event).sum() / both.sum())

    for image in range(7):
        weight = torch.ones(7, dtype=torch.float64)
        weight[image] += 1e-6
        assert float(moves[rows[image]]) == pytest.approx((share(weight) - share(torch.ones(7))) / 1e-6, abs=1e-5)


def coverage(name: str, images: int, pairs_of: int, runs: int, strong: bool, far: float = 1.0) -> tuple[float, float]:
    """Return how often a sample's interval holds the value of all pairs of its images, and that of the population."""
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


@pytest.mark.parametrize("name", ["universal_quantile", "uniformity"])
def test_intervals_hold_for_all_images_and_for_the_population(name) -> None:
    """A sample of the slow test: were the images that are left out counted as compared, far fewer would hold."""
    for value in coverage(name, 600, 60, 100, False, far=2.5):
        assert value >= 0.95 - slack(100)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("name", ["universal_quantile", "uniformity", "matching"])
def test_intervals_hold_for_three_thousand_images(name, strong) -> None:
    for value in coverage(name, 3000, 150, 250, strong):
        assert value >= 0.95 - slack(250)


def test_too_few_images_are_refused_before_the_audit() -> None:
    with pytest.raises(HoldfastError, match="pairs_of: expected at least 3 images whose pairs are compared, got 2"):
        UniversalQuantile(pairs_of=2).check(IDS)
    with pytest.raises(HoldfastError, match="a whole number above 0"):
        UniversalQuantile(pairs_of=0)
    with pytest.raises(HoldfastError, match="pairs_of: expected at least 3"):
        sample(0, IDS, 2)


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
    assert "pairs of 30 images sampled from 100" in ours["scores"]["3 steps"]["interval"]
    for entry in records[0]["encoders"][0]["gallery"]:
        assert entry["placed_among"] == 50
        share = entry["quantile"] * 50 * 49 / 2
        assert share == pytest.approx(round(share), abs=1e-6)
    page = write_report(tmp_path / "5")
    assert "of the distances between 50 of the clean images" in Path(page).read_text(encoding="utf-8")
