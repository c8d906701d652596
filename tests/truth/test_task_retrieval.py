"""Retrieval tasks on hand-made representations: scores by loops and by scikit-learn, ties by all orders."""

import itertools
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, ndcg_score
from torch import Tensor, nn

import holdfast
from holdfast.core import Ball, Encoder, Observation, Relevance, Rng, Shard
from holdfast.core.divergence import read_divergence as as_divergence
from holdfast.numerics.geometry import judged as module
from holdfast.numerics.geometry.judged import score_retrieval
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.outranked import Outranked
from holdfast.parts.measures.retrieval.task_retrieval import TaskRetrieval
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Missing, NotEnough
from searched import Unsearched
from task_files import task

QUERIES, CORPUS, DIM = 8, 30, 5
N = QUERIES + CORPUS
CUTS = (1, 3, 10, 25)


def world(seed: int = 0, empty: int = 2) -> tuple[Tensor, Relevance]:
    """Return representations and judgments; the last queries have none."""
    random = torch.Generator().manual_seed(seed)
    grades = torch.randint(-6, 4, (QUERIES, CORPUS), generator=random).clamp_min(0)
    grades[:, 0] += 1
    grades[QUERIES - empty :] = 0
    pairs = grades.nonzero()
    values = grades[pairs[:, 0], pairs[:, 1]]
    relevance = Relevance(torch.arange(N) < QUERIES, pairs + torch.tensor([0, QUERIES]), values, 40)
    return torch.randn(N, DIM, generator=random, dtype=torch.float64), relevance


def in_order(results: list[int], grades: dict[int, int], k: int) -> tuple[float, float, float, float]:
    """Return rank, recall@k, average precision@k and nDCG@k of results in one order, from their definitions."""
    first = next(place for place, image in enumerate(results, 1) if grades.get(image, 0) > 0)
    gained = sum(grades.get(image, 0) / math.log2(place + 1) for place, image in enumerate(results[:k], 1))
    best = sum(g / math.log2(place + 1) for place, g in enumerate(sorted(grades.values(), reverse=True)[:k], 1))
    relevant = [grades.get(image, 0) > 0 for image in results[:k]]
    precisions = [sum(relevant[:place]) / place for place, hit in enumerate(relevant, 1) if hit]
    return first, sum(relevant) / len(grades), sum(precisions) / len(grades), gained / best


def grades_of(relevance: Relevance, query: int) -> dict[int, int]:
    pairs = zip(relevance.pairs.tolist(), relevance.grades.tolist(), strict=True)
    return {image: grade for (own, image), grade in pairs if own == query}


@pytest.mark.parametrize("name", ["cosine", "l2"])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_scores_are_those_of_loops(name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRIES", rows * N)
    reps, relevance = world()
    moved = reps[:QUERIES] + torch.randn(QUERIES, DIM, generator=torch.Generator().manual_seed(1))
    scores = score_retrieval(moved, reps, relevance, CUTS, as_divergence(name))
    for query in range(QUERIES):
        grades = grades_of(relevance, query)
        if not grades:
            assert scores.rank[query].isnan()
            assert scores.recall[:, query].isnan().all()
            assert scores.precision[:, query].isnan().all()
            assert scores.ndcg[:, query].isnan().all()
            continue
        if name == "l2":
            apart = (reps - moved[query]).norm(dim=1)
        else:
            apart = -torch.cosine_similarity(reps, moved[query][None])
        results = sorted(range(QUERIES, N), key=lambda image: float(apart[image]))
        for at, k in enumerate(CUTS):
            first, recall, precision, ndcg = in_order(results, grades, k)
            assert float(scores.rank[query]) == first
            assert float(scores.recall[at, query]) == pytest.approx(recall, abs=1e-12)
            assert float(scores.precision[at, query]) == pytest.approx(precision, abs=1e-12)
            assert float(scores.ndcg[at, query]) == pytest.approx(ndcg, abs=1e-12)


@pytest.mark.parametrize("levels", [2, 4, 1000])
def test_ndcg_is_that_of_scikit_learn_with_ties(levels: int) -> None:
    """On a line, so that equal distances are exactly equal."""
    random = np.random.default_rng(levels)
    reps = torch.cat([torch.zeros(QUERIES), torch.tensor(random.integers(1, levels + 1, CORPUS) * 0.25)])[:, None]
    _, relevance = world(empty=0)
    scores = score_retrieval(reps[:QUERIES], reps, relevance, CUTS, L2())
    truth = relevance.grade_images(torch.arange(QUERIES))[:, QUERIES:].numpy()
    near = -reps[QUERIES:].T.numpy().repeat(QUERIES, 0)
    for at, k in enumerate(CUTS):
        expected = [ndcg_score(truth[[query]], near[[query]], k=k) for query in range(QUERIES)]
        assert scores.ndcg[at].tolist() == pytest.approx(expected, abs=1e-12)


def test_ties_are_the_mean_over_all_orders() -> None:
    places = [1.0, 2, 2, 2, 2, 3]  # of the corpus
    reps = torch.tensor([[0.0], *([place] for place in places)])
    relevance = Relevance(torch.arange(7) < 1, torch.tensor([[0, 2], [0, 3], [0, 6]]), torch.tensor([1, 3, 2]), 6)
    orders = [[1, *middle, 6] for middle in itertools.permutations([2, 3, 4, 5])]
    cuts = (1, 2, 3, 4, 6)
    scores = score_retrieval(reps[:1], reps, relevance, cuts, L2())
    for at, k in enumerate(cuts):
        expected = np.mean([in_order(order, {2: 1, 3: 3, 6: 2}, k) for order in orders], 0)
        means = (float(scores.rank), *(float(row[at]) for row in (scores.recall, scores.precision, scores.ndcg)))
        assert means == pytest.approx(tuple(expected), abs=1e-12)


def test_the_average_precision_of_all_results_is_that_of_scikit_learn() -> None:
    reps, relevance = world(empty=0)
    scores = score_retrieval(reps[:QUERIES], reps, relevance, [CORPUS], L2())
    truth = relevance.grade_images(torch.arange(QUERIES))[:, QUERIES:].numpy() > 0
    near = -torch.cdist(reps[:QUERIES], reps[QUERIES:]).numpy()
    expected = [average_precision_score(truth[query], near[query]) for query in range(QUERIES)]
    assert scores.precision[0].tolist() == pytest.approx(expected, abs=1e-12)


def test_an_encoder_of_one_point_finds_by_chance() -> None:
    _, relevance = world(empty=0)
    scores = score_retrieval(torch.ones(QUERIES, 3), torch.ones(N, 3), relevance, [3], Cosine())
    assert scores.recall[0].tolist() == pytest.approx([3 / CORPUS] * QUERIES)
    count = torch.tensor([len(grades_of(relevance, query)) for query in range(QUERIES)])
    assert torch.allclose(scores.rank, (CORPUS + 1.0) / (count + 1).double())


@pytest.mark.parametrize("skip", [False, True])
def test_a_querys_own_image_is_left_out_where_that_is_asked_for(skip: bool) -> None:
    reps, relevance = world()
    image = int(relevance.pairs[relevance.pairs[:, 0] == 0][0, 1])
    reps[image] = reps[0]
    relevance = replace(relevance, skip_own=skip, own=torch.tensor([[0, image]]))
    grades = grades_of(relevance, 0)
    own = grades.pop(image)
    results = sorted(set(range(QUERIES, N)) - {image}, key=lambda other: float((reps[other] - reps[0]).norm()))
    results, grades = (results, grades) if skip else ([image, *results], {**grades, image: own})
    scores = score_retrieval(reps[:QUERIES], reps, relevance, [3], L2())
    columns = (scores.rank, scores.recall[0], scores.precision[0], scores.ndcg[0])
    assert tuple(float(column[0]) for column in columns) == pytest.approx(in_order(results, grades, 3))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", ["cosine", "l2"])
def test_outranked_is_what_finds_nothing_among_the_first(k: int, name: str) -> None:
    reps, relevance = world()
    shard = Shard(
        Encoder(nn.Flatten(), mean=0, std=1),
        reps.float().view(N, 1, 1, DIM)[:QUERIES],
        torch.arange(QUERIES),
        Rng(0, ids=tuple(map(str, range(QUERIES)))),
        reps,
        relevance=relevance,
    )
    event = Outranked(k, "qrels", name).bind(shard)
    moved = torch.randn(QUERIES, 6, DIM, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    values = event(moved, torch.arange(QUERIES))
    for draw in range(6):
        rank = score_retrieval(moved[:, draw], reps, relevance, [k], as_divergence(name)).rank
        assert torch.equal(values[:, draw] > 0, rank > k)  # NaN is not above: nothing to find is no failure
    assert 0 < int((values > 0).sum()) < values[:6].numel()
    with pytest.raises(Missing, match="outranked"):
        Outranked(k, "qrels", name).bind(replace(shard, relevance=None))
    with pytest.raises(NotEnough, match="--images 40"):
        Outranked(k, "qrels", name).bind(replace(shard, relevance=replace(relevance, missing=2)))


@dataclass
class Given(Unsearched):
    """A subject whose representations are given."""

    clean: Tensor
    relevance: Relevance | None
    points: list[Tensor] = field(default_factory=list)
    encoder: Encoder = field(default_factory=lambda: Encoder(nn.Flatten(), mean=0, std=1))
    seed: int = 0
    attacked: int = QUERIES + 2  # two of them are images of the corpus
    population: int = N

    def collect_points(self, ball: Ball) -> list[Tensor]:
        return self.points

    def read(self, observation: Observation) -> dict[str, Tensor]:
        assert observation == Clean()
        return {"reps": self.clean}


def test_the_worst_of_each_query_and_of_each_score_counts() -> None:
    reps, relevance = world()
    random = torch.Generator().manual_seed(4)
    points = [torch.randn(6, 2, DIM, generator=random, dtype=torch.float64) for _ in range(2)]
    points[1][3] = torch.nan  # met nothing inside the ball
    measure = TaskRetrieval(k=(3, 1), divergence="l2")
    table = measure.observe(Given(reps, relevance, points))
    for query in range(QUERIES - 2):
        met = [reps[query], *(point for several in points for point in several[query] if not point.isnan().any())]
        at = [score_retrieval(point[None], reps, _alone(relevance, query), (3, 1), L2()) for point in met]
        assert float(table["rank@clean"][query]) == float(at[0].rank)
        assert float(table["rank@worst found"][query]) == max(float(scores.rank) for scores in at)
        for number, k in enumerate((3, 1)):
            for name in ("recall", "ndcg"):
                assert float(table[f"{name}@{k}@clean"][query]) == float(getattr(at[0], name)[number])
                low = min(float(getattr(scores, name)[number]) for scores in at)
                assert float(table[f"{name}@{k}@worst found"][query]) == low
    assert all(table["rank@clean"][row].isnan() for row in range(QUERIES - 2, QUERIES + 2))
    scores = measure.score(table)
    assert list(scores)[-1] == "nDCG@3, worst found"
    ranks = table["rank@clean"][: QUERIES - 2]
    assert scores["hit rate@3, clean"].value == float((ranks <= 3).double().mean())
    assert scores["mean reciprocal rank, clean"].value == pytest.approx(float((1 / ranks).mean()))
    assert all(score.n == QUERIES - 2 for score in scores.values())
    assert all("30 of the 40 images of the corpus are searched" in score.note for score in scores.values())
    influence = measure.influence(table)
    assert (influence == 0).tolist() == table["rank@clean"].isnan().tolist()


def _alone(relevance: Relevance, query: int) -> Relevance:
    """Return the judgments of one query as those of the first image, which is moved in its place."""
    mine = relevance.pairs[:, 0] == query
    pairs = relevance.pairs[mine] * torch.tensor([0, 1])
    return replace(relevance, pairs=pairs, grades=relevance.grades[mine])


def test_whole_corpora_have_no_note_and_copies_have_one() -> None:
    reps, relevance = world()
    measure, whole = TaskRetrieval(k=(3,)), replace(relevance, corpus=CORPUS)
    assert {score.note for score in _scored(measure, reps, whole)} & {""}
    held = replace(whole, own=torch.tensor([[0, 9], [0, 10], [1, 9]]))
    assert all("the very image of 2 queries" in score.note for score in _scored(measure, reps, held))
    assert not any("very" in score.note for score in _scored(measure, reps, replace(held, skip_own=True)))


def _scored(measure: TaskRetrieval, reps: Tensor, relevance: Relevance) -> list[holdfast.core.Score]:
    return list(measure.score(measure.observe(Given(reps, relevance))).values())


def test_searches_are_pursued_for_each_number_of_results() -> None:
    measure = TaskRetrieval(k=(5, 1), attack=Pgd(3))
    assert {o.failure for o in measure.observations() if isinstance(o, Broken)} == {
        Outranked(5, "qrels", "cosine"),
        Outranked(1, "qrels", "cosine"),
    }
    (search,) = measure.relies_on("nDCG@5, worst found")
    assert search.objective == Outranked(5, "qrels", "cosine")
    assert measure.relies_on("nDCG@5, clean") == ()
    assert measure.relies_on("mean reciprocal rank, worst found") == measure.searches
    assert Outranked(1, "qrels", "l1") in {
        search.objective for search in TaskRetrieval(k=(1,), divergence="l1").searches
    }


def test_what_is_no_task_is_refused() -> None:
    reps, relevance = world()
    with pytest.raises(Missing, match="retrieval:FOLDER"):
        TaskRetrieval(k=(3,)).observe(Given(reps, None))
    with pytest.raises(NotEnough, match="got 30"):
        TaskRetrieval(k=(CORPUS,)).observe(Given(reps, relevance))
    with pytest.raises(NotEnough, match="skip_own"):
        TaskRetrieval(k=(3,)).observe(
            Given(reps, replace(relevance, pairs=relevance.pairs[:0], grades=relevance.grades[:0]))
        )
    with pytest.raises(BadValue, match="divergence"):
        TaskRetrieval(divergence="nosuch")
    with pytest.raises(Missing, match="task_retrieval"):
        holdfast.audit("zoo:digits-simclr", "digits", measures="task_retrieval", images=40, quiet=True)


@pytest.mark.slow
def test_audits_score_the_task_itself(tmp_path: Path) -> None:
    """Clean scores are those of the definition on the encoder's own representations, whatever the batches."""
    it = task(queries=10, corpus=40)
    spec, measure = (
        f"retrieval:{it.parquet(tmp_path / 'task')}",
        TaskRetrieval(k=(5, 1), attack=Pgd(4), ball=Linf(0.05)),
    )
    wanted = {
        "measures": measure,
        "images": 50,
        "attacked": 10,
        "examined": 4,
        "queries": 10,
        "quiet": True,
        "budget": "none",
    }
    record = holdfast.audit("zoo:digits-simclr", spec, **wanted)
    images = holdfast.sources.data.open_images(spec)
    encoder = holdfast.sources.encoders.open_encoder("zoo:digits-simclr")
    with torch.no_grad():
        reps = nn.functional.normalize(encoder(images.batch(0, 50)).double(), dim=1)
    places = {name: place for place, name in enumerate(images.ids)}
    expected = []
    for query, _ in it.queries:
        apart = -(reps @ reps[places[f"queries/{query}"]])
        results = sorted((places[f"corpus/{name}"] for name, _ in it.corpus), key=lambda place: float(apart[place]))
        grades = {places[f"corpus/{image}"]: score for own, image, score in it.qrels if own == query and score > 0}
        expected.append(in_order(results, grades, 5))
    scores = record.scores("task_retrieval")
    rank, recall, precision, ndcg = np.array(expected).T
    assert scores["mean reciprocal rank, clean"].value == pytest.approx((1 / rank).mean(), abs=1e-9)
    assert scores["hit rate@5, clean"].value == pytest.approx((rank <= 5).mean())
    assert scores["recall@5, clean"].value == pytest.approx(recall.mean(), abs=1e-9)
    assert scores["MAP@5, clean"].value == pytest.approx(precision.mean(), abs=1e-9)
    assert scores["nDCG@5, clean"].value == pytest.approx(ndcg.mean(), abs=1e-9)
    assert 0 <= scores["nDCG@5, worst found"].value < scores["nDCG@5, clean"].value
    assert holdfast.audit("zoo:digits-simclr", spec, **(wanted | {"attacked": 40})).data["data"]["attacked"] == 10
    again = holdfast.audit("zoo:digits-simclr", spec, batch_size=7, **wanted)
    assert again.scores("task_retrieval")["nDCG@5, clean"].value == pytest.approx(ndcg.mean(), abs=1e-9)
