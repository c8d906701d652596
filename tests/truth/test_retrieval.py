"""Search and matching on hand-made representations: by loops, by scikit-learn, and what they refuse to tell."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.core import Ball, Encoder, Observation, Rng, Shard, registry
from holdfast.core.divergence import read_divergence as divergence
from holdfast.numerics import statistics
from holdfast.numerics.geometry import ranking
from holdfast.numerics.geometry.matching import look_alikes, matches, matches_of_copies
from holdfast.numerics.geometry.ranking import rank_queries, without
from holdfast.numerics.statistics.thresholds import AtRate
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.outranked import Outranked
from holdfast.parts.measures.neighbours.nearest_neighbour_accuracy import NearestNeighbourAccuracy
from holdfast.parts.measures.retrieval.edited_matching import EditedMatching
from holdfast.parts.measures.retrieval.edited_retrieval import EditedRetrieval
from holdfast.parts.measures.retrieval.matching import Matching
from holdfast.parts.measures.retrieval.retrieval import Retrieval
from holdfast.parts.measures.shared.matched import above
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.represented import Represented
from holdfast.parts.observations.thumbnails import Thumbnails
from holdfast.parts.threats.crop import Crop
from holdfast.parts.threats.jpeg import Jpeg
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Missing, NotEnough
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit
from searched import Unsearched

N, M, DIM = 30, 20, 4
SHORT = {"attack": Pgd(4, 0.01)}
EDITS = (Jpeg(50), Crop(0.5))


@dataclass
class Given(Unsearched):
    """A subject whose representations are given."""

    clean: Tensor
    drifted: Tensor
    aimed: Tensor
    edited: tuple[Tensor, Tensor]
    labels: Tensor | None = None
    thumbnails: Tensor = field(default_factory=lambda: torch.arange(float(N))[:, None])
    points: list[Tensor] = field(default_factory=list)
    encoder: Encoder = field(default_factory=lambda: Encoder(nn.Flatten(), mean=0, std=1))
    seed: int = 0
    has_training_set = False

    @property
    def population(self) -> int:
        return len(self.clean)

    @property
    def attacked(self) -> int:
        return len(self.drifted)

    @property
    def ids(self) -> list[str]:
        return [str(i) for i in range(self.population)]

    def batch(self, start: int, stop: int) -> Tensor:
        raise AssertionError("measures do not look at images")

    bank = fit_probe = batch

    def collect_points(self, ball: Ball) -> list[Tensor]:
        return [self.drifted[:, None].double(), *self.points]

    def read(self, observation: Observation) -> dict[str, Tensor]:
        match observation:
            case Clean():
                return {"reps": self.clean}
            case Thumbnails():
                return {"thumbnails": self.thumbnails}
            case Represented():
                return {"reps": self.edited[EDITS.index(observation.threat)]}
            case Attacked():
                reps = self.aimed if isinstance(observation.objective, Targeted) else self.drifted
                return {f"reps@{step}": reps for step in observation.steps}
        raise AssertionError(observation)


def given(spread: float = 1.5, **others) -> Given:
    random = torch.Generator().manual_seed(0)

    def moved(size: float = spread) -> Tensor:
        return clean[:M] + size * torch.randn(M, DIM, generator=random)

    clean = torch.randn(N, DIM, generator=random)
    partner = torch.arange(M) ^ 1
    aimed = clean[partner] + 0.6 * torch.randn(M, DIM, generator=random)
    return Given(clean, moved(), aimed, (moved(), moved()), labels=torch.arange(N) % 4, **others)


def distance(a: Tensor, b: Tensor, name: str = "l2") -> float:
    return float(divergence(name)(a.double()[None], b.double()[None]))


def rank(query: Tensor, clean: Tensor, own: int, name: str = "l2") -> int:
    """1 + how many of the others are strictly nearer than the own image."""
    limit = distance(query, clean[own], name)
    return 1 + sum(distance(query, clean[j], name) < limit for j in range(len(clean)) if j != own)


@pytest.mark.parametrize("name", ["l2", "cosine", "l1", "kl"])
def test_the_original_is_ranked_as_by_loops(name: str) -> None:
    subject = given()
    ranks = [rank(subject.drifted[i], subject.clean, i, name) for i in range(M)]
    assert len(set(ranks)) > 5
    measure = Retrieval(**SHORT, divergence=name, k=(5, 1))
    table = measure.observe(subject)
    assert table["rank@4 steps"].tolist() == ranks
    scores = measure.score(table)
    assert scores["recall@5, 4 steps"].value == pytest.approx(np.mean(np.array(ranks) <= 5))
    assert scores["recall@1, 4 steps"].value == pytest.approx(np.mean(np.array(ranks) == 1))
    assert scores["mean reciprocal rank, 4 steps"].value == pytest.approx(np.mean(1 / np.array(ranks)))
    assert "given this index" in scores["recall@1, 4 steps"].interval
    assert list(scores)[-1] == "mean reciprocal rank, worst found"


def test_recall_at_one_is_nearest_neighbour_accuracy() -> None:
    subject = given()
    ours, theirs = Retrieval(**SHORT), NearestNeighbourAccuracy(**SHORT)
    scores, known = (part.score(part.observe(subject)) for part in (ours, theirs))
    for query in ("4 steps", "worst found"):
        assert scores[f"recall@1, {query}"].value == known[query].value


def test_the_worst_of_all_that_was_met_counts() -> None:
    """Of two searches of fewer images, one with points outside the ball, which are NaN."""
    random = torch.Generator().manual_seed(5)
    points = [torch.randn(5, 2, DIM, generator=random).double(), torch.randn(M, 1, DIM, generator=random).double()]
    points[0][2:, 1] = torch.nan
    subject = given(0.5, points=points)
    worst = []
    for i in range(M):
        met = [subject.drifted[i], *(p[i, t] for p in points if i < len(p) for t in range(p.shape[1]))]
        worst.append(max(rank(q, subject.clean, i) for q in met if not q.isnan().any()))
    measure = Retrieval(**SHORT)
    table = measure.observe(subject)
    assert table["rank@worst found"].tolist() == worst
    assert table["precision@worst found"].tolist() == pytest.approx([1 / r for r in worst])
    assert (table["rank@worst found"] > table["rank@4 steps"]).any()
    classes = Retrieval(**SHORT, relevant="class")
    subject.points = [torch.full((M, 1, DIM), torch.nan, dtype=torch.float64)]
    table = classes.observe(subject)
    for column in ("rank", "precision"):
        torch.testing.assert_close(table[f"{column}@worst found"], table[f"{column}@4 steps"], equal_nan=True)


@pytest.mark.parametrize("name", ["l2", "cosine"])
@pytest.mark.parametrize("levels", [2, 1000])
def test_average_precision_is_scikit_learns(name: str, levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many equal distances, and almost without; however many queries are sorted at a time."""
    random = torch.Generator().manual_seed(levels)
    bank = torch.randint(1, levels + 1, (N, 3), generator=random).double()
    queries = torch.randint(1, levels + 1, (M, 3), generator=random).double()
    labels, own = torch.randint(3, (N,), generator=random), torch.arange(M)
    labels[4] = 9  # alone in its class
    first, precision = rank_queries(queries, bank, own, labels, divergence(name))
    for i in range(M):
        others = [j for j in range(N) if j != i]
        apart = np.round([distance(queries[i], bank[j], name) for j in others], 12)
        relevant = np.array([bool(labels[j] == labels[i]) for j in others])
        if i == 4:
            assert first[i].isnan()
            assert precision[i].isnan()
            continue
        assert float(precision[i]) == pytest.approx(average_precision_score(relevant, -apart))
        assert int(first[i]) == 1 + (apart < apart[relevant].min()).sum()
    monkeypatch.setattr(ranking, "ENTRIES", 3 * N)
    for whole, parts in zip(
        (first, precision), rank_queries(queries, bank, own, labels, divergence(name)), strict=True
    ):
        torch.testing.assert_close(whole, parts, equal_nan=True, rtol=0, atol=1e-12)


def test_equal_images_have_the_precision_of_their_share() -> None:
    bank, labels = torch.ones(9, 2), torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 1])
    _, precision = rank_queries(bank, bank, torch.arange(9), labels, L2())
    assert precision.tolist() == pytest.approx([2 / 8] * 3 + [5 / 8] * 6)


def test_classes_judge_attacked_and_clean_queries() -> None:
    subject = given()
    measure = Retrieval(**SHORT, relevant="class", k=(1, 3))
    assert measure.needs_labels
    assert not measure.learns
    table = measure.observe(subject)
    for query, reps in (("clean", subject.clean), ("4 steps", subject.drifted)):
        right, precisions = [], []
        for i in range(M):
            others = sorted((distance(reps[i], subject.clean[j]), j) for j in range(N) if j != i)
            relevant = [j % 4 == i % 4 for _, j in others]
            right.append(any(relevant[:3]))
            precisions.append(average_precision_score(relevant, [-d for d, _ in others]))
        scores = measure.score(table)
        assert scores[f"recall@3, {query}"].value == pytest.approx(np.mean(right))
        assert scores[f"mean average precision, {query}"].value == pytest.approx(np.mean(precisions))
    assert measure.relies_on("recall@1, clean") == ()
    assert len(table["rank@clean"]) == N
    assert list(scores)[-1] == "mean average precision, worst found"
    subject.labels = None
    with pytest.raises(Missing, match="label"):
        measure.observe(subject)


@pytest.mark.parametrize("name", ["l2", "cosine"])
def test_contributions_to_the_mean_average_precision_are_those_of_removing_an_image(name: str) -> None:
    """By searching again without it: in the index, and as a query."""
    subject = given()
    clean, queries = subject.clean.double(), subject.drifted.double()
    labels, own = torch.arange(N) % 4, torch.arange(M)
    _, before = rank_queries(queries, clean, own, labels, divergence(name))
    removed = without(queries, clean, own, labels, divergence(name))
    for j in range(N):
        kept = torch.tensor([i for i in range(N) if i != j])
        left = own[own != j]
        places = torch.searchsorted(kept, left)
        _, after = rank_queries(queries[left], clean[kept], places, labels[kept], divergence(name))
        assert float(removed[j]) == pytest.approx(float((after - before[left]).sum()) / M, abs=1e-12)
    measure = Retrieval(**SHORT, relevant="class", divergence=name)
    parts = measure.observe(subject)["parts@4 steps"]
    assert float(parts.mean()) == pytest.approx(float(before.mean()))
    alone = torch.cat([(before - before.mean()) / M, torch.zeros(N - M)]) - (removed - removed.mean())
    torch.testing.assert_close(parts, before.mean() + N * alone)


@pytest.mark.parametrize("relevant", ["original", "class"])
@pytest.mark.parametrize("name", ["l2", "cosine"])
@pytest.mark.parametrize("k", [1, 4])
def test_outranked_is_what_recall_misses(relevant: str, name: str, k: int) -> None:
    subject = given()
    rows, rng = torch.arange(M), Rng(0, ids=tuple(map(str, range(M))))
    shard = Shard(subject.encoder, torch.zeros(M, 1, 2, 2), rows, rng, subject.clean, labels=subject.labels)
    failure = Outranked(k, relevant, name)
    table = Retrieval(**SHORT, relevant=relevant, divergence=name, k=(k,)).observe(subject)
    value = failure.bind(shard)(subject.drifted[:, None], rows).squeeze(1)
    missed = table["rank@4 steps"][:M] > k
    assert 0 < missed.double().mean() < 1
    assert torch.equal(value > 0, missed)
    clean = failure.bind(shard)(subject.clean[:M, None], rows).squeeze(1)
    torch.testing.assert_close(clean.abs(), torch.ones_like(clean))
    if relevant == "original":
        assert (clean < 0).all()


def test_outranked_by_nobody_is_no_failure() -> None:
    subject, rows = given(), torch.arange(M)
    rng = Rng(0, ids=tuple(map(str, range(M))))
    shard = Shard(subject.encoder, torch.zeros(M, 1, 2, 2), rows, rng, subject.clean, labels=subject.labels)
    for failure in (Outranked(N), Outranked(N, "class")):
        assert (failure.bind(shard)(subject.drifted[:, None], rows) < -1).all()
    alone = Shard(subject.encoder, shard.x, rows, rng, subject.clean, labels=torch.arange(N))
    assert (Outranked(1, "class").bind(alone)(subject.drifted[:, None], rows) < -1).all()
    unlabelled = Shard(subject.encoder, shard.x, rows, rng, subject.clean)
    with pytest.raises(Missing, match="labels"):
        Outranked(1, "class").bind(unlabelled)
    with pytest.raises(BadValue, match="cosine"):
        Outranked(1, divergence="cosin")
    with pytest.raises(BadValue, match="original"):
        Outranked(1, relevant="orignal")


def test_each_number_of_results_is_pursued() -> None:
    """By a search of its own, on which its recall relies; the first place by the search for the smallest change."""
    measure = Retrieval(**SHORT, k=(1, 5))
    (drift,), nearest, fifth = measure.drift, measure.rank_searches[1], measure.rank_searches[5]
    assert isinstance(nearest, BreakingRadii)
    assert isinstance(fifth, Broken)
    assert fifth.failure == Outranked(5)
    assert set(measure.observations()) == {Clean(), drift, nearest, fifth}
    assert measure.relies_on("recall@5, worst found") == fifth.searches
    assert measure.relies_on("recall@1, worst found") == nearest.searches
    assert measure.relies_on("recall@5, 4 steps") == drift.searches
    assert measure.relies_on("mean reciprocal rank, worst found") == measure.searches


def test_edited_copies_are_searched_alike() -> None:
    subject = given()
    measure = EditedRetrieval(EDITS, k=(2, 4))
    table = measure.observe(subject)
    ranks = np.array([[rank(reps[i], subject.clean, i) for i in range(M)] for reps in subject.edited])
    scores = measure.score(table)
    assert scores["JPEG 50"].value == pytest.approx((ranks[0] <= 2).mean())
    assert scores["cropped to 50 %"].value == pytest.approx((ranks[1] <= 2).mean())
    assert scores["average"].value == pytest.approx((ranks <= 2).mean())
    assert scores["average, recall@4"].value == pytest.approx((ranks <= 4).mean())
    assert scores["average, mean reciprocal rank"].value == pytest.approx((1 / ranks).mean())
    assert list(scores)[-1] == "average"
    (chart,) = measure.charts(table, scores)
    (line,) = chart.lines
    assert dict(zip(line.x, line.y, strict=True))[2.0] == pytest.approx((ranks <= 2).mean())


@pytest.mark.parametrize("name", ["l2", "cosine", "kl"])
def test_the_threshold_lets_as_many_pairs_match_as_the_rate_allows(name: str) -> None:
    subject, rate = given(), 0.07
    thumbnails = torch.rand(N, 20, generator=torch.Generator().manual_seed(1))
    alike = [(0, 1), (3, 9), (5, 8)]
    for i, j in alike:
        thumbnails[j] = thumbnails[i] + 2.9 / 255
    thumbnails[7] = thumbnails[6]
    thumbnails[7, 19] += 3.2 / 255  # one cell is enough to differ
    assert look_alikes(thumbnails).tolist() == [list(pair) for pair in alike]
    apart = {
        (i, j): distance(subject.clean[i], subject.clean[j], name)
        for i in range(N)
        for j in range(N)
        if (i != j if name == "kl" else i < j) and (min(i, j), max(i, j)) not in alike
    }
    pairs = list(apart.values())
    queries = torch.tensor([0.0, math.nan, *sorted(pairs)[:60]]) * (1 + 1e-7)
    found = matches(subject.clean, thumbnails, queries, rate, divergence(name))
    assert found.pairs == len(pairs)
    assert found.allowed == int(rate * len(pairs))
    assert found.threshold == pytest.approx(sorted(pairs)[found.allowed])
    assert sum(pair < found.threshold * (1 - 1e-9) for pair in pairs) == found.allowed
    assert found.quantiles[1].isnan()
    np.testing.assert_allclose(found.quantiles[2:], np.arange(1, 61) / len(pairs))
    assert ((found.quantiles > rate) == (queries >= found.threshold))[2:].all()
    below = {pair: value <= found.threshold * (1 + 1e-9) for pair, value in apart.items()}
    share = np.mean(list(below.values()))  # what each image contributes to it, in either role
    near = [share + N / 2 * sum(below[pair] - share for pair in apart if i in pair) / len(pairs) for i in range(N)]
    np.testing.assert_allclose(found.near, near)


def test_evasion_and_collision_are_those_at_the_threshold() -> None:
    subject, rate = given(), 0.1
    subject.clean[1] = subject.clean[0] + 0.01
    measure = Matching(**SHORT, rate=rate)
    pairs = sorted(distance(subject.clean[i], subject.clean[j]) for i in range(N) for j in range(i))
    limit = pairs[int(rate * len(pairs))]
    evades = [distance(subject.drifted[i], subject.clean[i]) >= limit for i in range(M)]
    before = [distance(subject.clean[i], subject.clean[i ^ 1]) for i in range(M)]
    collides = [distance(subject.aimed[i], subject.clean[i ^ 1]) < limit for i in range(M) if before[i] >= limit]
    assert 0 < np.mean(evades) < 1
    assert 0 < np.mean(collides) < 1
    assert len(collides) < M
    table = measure.observe(subject)
    scores = measure.score(table)
    assert scores["evasion"].value == pytest.approx(np.mean(evades))
    assert scores["collision"].value == pytest.approx(np.mean(collides))
    assert scores["evasion"].note.startswith(f"threshold {limit:.4g} in l2: 43 of 435 pairs of 30 images match")
    assert scores["evasion"].note.endswith("match")  # nothing of images that were not attacked
    assert scores["collision"].note.endswith("2 of 20 rows are undefined and left out")
    assert "given this threshold, and of the threshold" in scores["evasion"].interval
    assert len(table["evades"]) == N
    edited = EditedMatching(EDITS, rate=rate)
    scores = edited.score(edited.observe(subject))
    missed = [[distance(reps[i], subject.clean[i]) >= limit for i in range(M)] for reps in subject.edited]
    assert scores["JPEG 50"].value == pytest.approx(np.mean(missed[0]))
    assert scores["average"].value == pytest.approx(np.mean(missed))


def test_classes_say_which_pairs_are_different() -> None:
    subject, rate = given(), 0.1
    pairs = sorted(
        distance(subject.clean[i], subject.clean[j]) for i in range(N) for j in range(i) if i % 4 != j % 4
    )  # labels are i % 4
    limit = pairs[int(rate * len(pairs))]
    for measure, column in (
        (Matching(**SHORT, rate=rate, negatives="classes"), "evasion"),
        (EditedMatching(EDITS, rate=rate, negatives="classes"), "average"),
    ):
        assert measure.needs_labels
        score = measure.score(measure.observe(subject))[column]
        assert score.note.startswith(f"threshold {limit:.4g} in l2: {int(rate * len(pairs))} of {len(pairs)} pairs")
    assert not Matching().needs_labels
    subject.labels = None
    with pytest.raises(Missing, match="labels"):
        Matching(**SHORT, negatives="classes").observe(subject)
    with pytest.raises(BadValue, match="negatives"):
        Matching(negatives="class")  # pyright: ignore[reportArgumentType]


class Copied(Given):
    """A subject that has edited copies of every kind."""

    def read(self, observation: Observation) -> dict[str, Tensor]:
        if isinstance(observation, Represented):
            random = torch.Generator().manual_seed(len(observation.threat.title))
            return {"reps": self.clean[:M] + 0.8 * torch.randn(M, DIM, generator=random)}
        return super().read(observation)


def test_copies_say_where_the_threshold_is() -> None:
    known = given()
    subject = Copied(known.clean, known.drifted, known.aimed, known.edited)
    measure = Matching(**SHORT, misses=0.2)
    copies = [observation for observation in measure.observations() if isinstance(observation, Represented)]
    assert len(copies) == 7
    apart = torch.stack([(subject.read(copy)["reps"] - subject.clean[:M]).double().norm(dim=1) for copy in copies])
    limit = float(apart.flatten().sort().values[int(0.8 * 140)])
    table = measure.observe(subject)
    score = measure.score(table)["evasion"]
    moved = [distance(subject.drifted[i], subject.clean[i]) for i in range(M)]
    assert score.value == pytest.approx(np.mean(np.array(moved) >= limit * (1 - 1e-9)))
    pairs = [distance(subject.clean[i], subject.clean[j]) for i in range(N) for j in range(i)]
    false = 100 * np.mean(np.array(pairs) <= limit)
    words = f"threshold {limit:.4g} in l2: 112 of 140 edited copies match, and {false:.2g} % of different images"
    assert score.note == words
    # what each image has to do with the threshold: its own copies, in one role
    own = (apart <= limit).double().mean(0)
    moves = 2 * (table["near"] - table["near"].mean()) / N
    assert moves[:M].tolist() == pytest.approx(((own - own.mean()) / M).tolist())
    assert moves[M:].abs().max() < 1e-12
    edited = EditedMatching(misses=0.2)
    missed = edited.score(edited.observe(subject))["average"]
    assert missed.value == pytest.approx(0.2)
    few = Matching(**SHORT, misses=0.01)
    assert few.score(few.observe(subject))["evasion"].note == (
        "undefined: to miss a share of 0.01 leaves 2 of 140 edited copies, and a threshold needs 10; use more images"
    )
    with pytest.raises(BadValue, match="misses"):
        Matching(misses=1.0)


@pytest.mark.parametrize("runs", [120, pytest.param(1200, marks=pytest.mark.slow)])
def test_intervals_hold_the_error_of_a_threshold_from_copies(runs: int) -> None:
    """Images differ in how far edits and attacks move them; nine copies in ten are to match."""
    random = torch.Generator().manual_seed(runs)

    def moved(images: int) -> tuple[Tensor, Tensor]:
        """How far four copies of each image, and the image itself attacked, are from it."""
        scale = torch.rand(images, generator=random) + 0.3
        copies = scale * torch.randn(4, images, generator=random).abs()
        return copies, scale * (torch.rand(images, generator=random) + 1)

    copies, attacked = moved(400_000)
    truth = float((attacked >= copies.flatten().sort().values[int(0.9 * copies.numel())]).double().mean())
    held = 0
    for _ in range(runs):
        copies, attacked = moved(100)
        found = matches_of_copies(copies, attacked, 0.9, 100)
        by_rate = AtRate(lambda rate, at=found.quantiles: above(at, rate), found.near, 0.9, float(found.pairs))
        score = by_rate.score()
        assert score.low is not None
        assert score.high is not None
        held += score.low <= truth <= score.high
    assert held / runs >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)


@dataclass
class InBalls(Given):
    """A subject that was attacked in balls of other sizes too, where it moved less or more far."""

    def read(self, observation: Observation) -> dict[str, Tensor]:
        found = super().read(observation)
        if not isinstance(observation, Attacked):
            return found
        to = self.clean[torch.arange(M) ^ 1] if isinstance(observation.objective, Targeted) else self.clean[:M]
        share = {0.01: 0.1, 0.02: 0.5, 0.05: 1.0, 0.1: 0.4}[observation.ball.radius]  # the last search fails
        if isinstance(observation.objective, Targeted):
            own = self.clean[:M]
            return {key: own + share * (reps - own) for key, reps in found.items()}
        return {key: to + share * (reps - to) for key, reps in found.items()}


def test_evasion_and_collision_rise_with_the_radius() -> None:
    known = given()
    subject = InBalls(known.clean, known.drifted, known.aimed, known.edited, labels=known.labels)
    radii = (0.1, 0.01, 0.02)
    measure, plain = Matching(**SHORT, rate=0.1, radii=radii), Matching(**SHORT, rate=0.1)
    table = measure.observe(subject)
    scores = measure.score(table)
    assert [ball.radius for ball in measure.balls] == [0.01, 0.02, 0.05, 0.1]
    assert {name: scores[name] for name in ("evasion", "collision")} == plain.score(plain.observe(subject))
    assert list(scores)[-1] == "evasion"
    pairs = sorted(distance(known.clean[i], known.clean[j]) for i in range(N) for j in range(i))
    limit = pairs[int(0.1 * len(pairs))]
    moved = [distance(known.drifted[i], known.clean[i]) for i in range(M)]
    for at, share in (("0.01", 0.1), ("0.02", 0.5), ("0.05", 1.0), ("0.1", 1.0)):
        assert scores[f"evasion@{at}"].value == pytest.approx(np.mean([share * d >= limit for d in moved])), at
        assert "and of the threshold" in scores[f"evasion@{at}"].interval
    collisions = [scores[f"collision@{at}"].value for at in ("0.01", "0.02", "0.05", "0.1")]
    assert collisions == sorted(collisions)
    assert collisions[0] < collisions[-1]
    assert [search.ball.radius for search in measure.relies_on("evasion@0.02")] == [0.02]
    assert [type(search.objective) for search in measure.relies_on("collision@0.1")] == [Targeted]
    assert measure.relies_on("evasion") == plain.searches[:1]
    assert plain.charts(table, scores) == ()
    (chart,) = measure.charts(table, scores)
    assert [line.style for line in chart.lines] == ["solid", "dashed"]
    assert chart.lines[0].x == (0.01, 0.02, 0.05, 0.1)
    assert chart.lines[0].y[2] == scores["evasion@0.05"].value
    for wrong in ((0.05,), (0.1, 0.1), (4 / 255, 0.0157), (-0.1,), (0.0,)):
        with pytest.raises(BadValue, match="radii"):
            Matching(**SHORT, radii=wrong)


def test_without_a_threshold_there_is_no_number() -> None:
    """Too few pairs for the rate, or more equal images than the rate allows."""
    subject = given()
    for measure in (Matching(**SHORT, rate=1e-3), EditedMatching(EDITS, rate=1e-3)):
        for score in measure.score(measure.observe(subject)).values():
            assert (score.value, score.low, score.high) == (None, None, None)
            assert "leaves 0 of 435 pairs of 30 images" in score.note
            assert "use 142 images or a larger rate" in score.note
    assert int(1e-3 * 142 * 141 / 2) == 10
    assert int(1e-3 * 141 * 140 / 2) == 9
    subject.clean[:15] = 1.0
    score = Matching(**SHORT, rate=0.1).score(Matching(**SHORT, rate=0.1).observe(subject))["evasion"]
    assert score.value is None
    assert "are equal to this encoder" in score.note


def test_intervals_know_that_the_threshold_is_estimated() -> None:
    quantiles = torch.linspace(0, 0.2, 200)

    def values(rate: float) -> Tensor:
        return (quantiles > rate).double()

    alone = statistics.share(values(0.05))
    exact = AtRate(values, torch.full((200,), 0.05), 0.05, pairs=1e12).score()
    assert (exact.low, exact.high) == (pytest.approx(alone.low, abs=1e-4), pytest.approx(alone.high, abs=1e-4))
    uneven = 0.05 * (1 + torch.randn(200, generator=torch.Generator().manual_seed(0)))
    wide = AtRate(values, uneven, 0.05, pairs=19900).score()
    assert wide.low < alone.low - 0.01
    assert wide.high > alone.high + 0.01


def test_an_image_with_more_pairs_below_raises_the_misses() -> None:
    """By its pairs it pulls the threshold down: at the same own value its influence is larger."""
    quantiles, near = torch.linspace(0, 0.2, 200), torch.full((200,), 0.05)
    near[150:160] = 0.5
    influence = AtRate(lambda rate: (quantiles > rate).double(), near, 0.05, pairs=19900).influence()
    assert (influence[150:160] > influence[160]).all()


def test_an_ensemble_is_read_where_it_ends() -> None:
    measure = Retrieval(attack=Ensemble((Pgd(3), Pgd(4))))
    assert measure.queries == ("strongest", "worst found")
    assert Matching(attack=Ensemble((Pgd(3), Pgd(4)))).relies_on("evasion") != ()


@pytest.mark.parametrize(
    ("name", "given_", "message"),
    [
        ("retrieval", {"k": ()}, "once"),
        ("retrieval", {"k": (1, 1)}, "once"),
        ("retrieval", {"k": (0,)}, "above 0"),
        ("retrieval", {"relevant": "clas"}, "class"),
        ("retrieval", {"divergence": "l3"}, "l3"),
        ("edited_retrieval", {"threats": ()}, "edited_retrieval"),
        ("edited_retrieval", {"k": (2, 2)}, "once"),
        ("matching", {"rate": 0.0}, "in \\(0, 1\\)"),
        ("edited_matching", {"rate": 1.0}, "in \\(0, 1\\)"),
        ("edited_matching", {"threats": (Jpeg(50), Jpeg(50))}, "once"),
    ],
)
def test_what_they_refuse(name: str, given_: dict, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        registry.find("measures", name)(**given_)


def test_an_audit_with_classes_depends_on_no_batch(tmp_path: Path) -> None:
    random = torch.Generator().manual_seed(2)
    source = Arrays(torch.rand(N, 1, 8, 8, generator=random), torch.arange(N) % 3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = Encoder(nn.Sequential(nn.Flatten(), nn.Linear(64, 6)), mean=0.5, std=0.5)
    attack = {"attack": Pgd(3), "ball": Linf(0.1), "relevant": "class", "k": (1, 2)}
    measures = (Retrieval(**attack), EditedRetrieval(EDITS, relevant="class", k=(1, 2)))
    plan = Plan(("it",), "arrays", measures, (), images=N, attacked=12)
    scores = []
    for size in (4, 30):
        record = run_audit(
            replace(plan, batch_size=size), tmp_path / str(size), encoders={"it": encoder}, source=source
        )
        assert record["failures"] == []
        entries = record["encoders"][0]["measures"].values()
        scores.append({title: score["value"] for entry in entries for title, score in entry["scores"].items()})
    assert scores[0] == pytest.approx(scores[1], rel=1e-3)
    assert scores[0]["mean average precision, worst found"] <= scores[0]["mean average precision, 3 steps"]
    with pytest.raises(Missing, match="label"):
        run_audit(plan, tmp_path / "none", encoders={"it": encoder}, source=Arrays(torch.rand(N, 1, 8, 8)))


def test_an_index_of_few_images_has_no_recall() -> None:
    subject = given()
    with pytest.raises(NotEnough):
        Retrieval(**SHORT, k=(1, N - 1)).observe(subject)
