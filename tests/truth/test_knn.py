"""The kNN probe against scikit-learn, and on problems whose answer is known."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from holdfast.core import Bank
from holdfast.parts.probes.knn import Knn
from holdfast.runtime.errors import BadValue, Mismatch, Missing, NotEnough, NotFinite, UnknownName


def blobs(size: int, classes: int = 4, dim: int = 6, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(size) % classes
    centres = torch.randn(classes, dim, generator=torch.Generator().manual_seed(9))
    return centres[labels] + torch.randn(size, dim, generator=random), 10 * labels


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.1), (20, 0.07), (200, 0.1)])
def test_votes_are_those_of_scikit_learn(k: int, temperature: float) -> None:
    """On unit vectors, ||a - b||² = 2 - 2 cos, so exp((cos - 1) / T) = exp(-||a - b||² / 2T)."""
    (bank, labels), (queries, _) = blobs(300), blobs(80, seed=1)

    def unit(reps: torch.Tensor) -> np.ndarray:
        return torch.nn.functional.normalize(reps.double(), dim=1).numpy()

    theirs = KNeighborsClassifier(k, weights=lambda d: np.exp(-(d**2) / 2 / temperature), algorithm="brute")
    shares = theirs.fit(unit(bank), labels.numpy()).predict_proba(unit(queries))
    vote = Knn(k, temperature).fit(bank, labels)
    ours = vote.scores(queries)
    assert vote.classes.tolist() == theirs.classes_.tolist()
    assert torch.allclose(ours / ours.sum(1, keepdim=True), torch.from_numpy(shares), atol=1e-5)


def test_a_bank_in_chunks_votes_like_one_in_memory() -> None:
    (bank, labels), (queries, _) = blobs(300), blobs(50, seed=1)
    whole = Knn(20).fit(bank, labels).scores(queries)
    parts = Knn(20).learn(Bank(labels, lambda: iter(bank.split(37)))).scores(queries)
    assert torch.equal(whole, parts)


def test_a_small_bank_votes_as_a_whole() -> None:
    (bank, labels), (queries, _) = blobs(12), blobs(5, seed=1)
    every = Knn(12).fit(bank, labels).scores(queries)
    assert torch.equal(Knn(200).fit(bank, labels).scores(queries), every)
    assert not torch.allclose(Knn(3).fit(bank, labels).scores(queries), every)


def test_ranks_count_the_classes_before_the_own_and_ties_count_against_it() -> None:
    bank, labels = torch.eye(3), torch.tensor([4, 5, 6])
    vote = Knn(1).fit(bank, labels)
    queries = torch.tensor([[1.0, 0.2, 0.1]] * 3)
    assert vote.ranks(queries, torch.tensor([4, 5, 6])).tolist() == [0, 2, 2]  # the two others have no vote at all
    with pytest.raises(Mismatch, match=r"\[7\]"):
        vote.ranks(queries, torch.tensor([4, 5, 7]))


def test_what_cannot_vote_is_refused() -> None:
    with pytest.raises(NotEnough, match="of 1"):
        Knn().fit(torch.randn(5, 3), torch.zeros(5, dtype=torch.long))
    with pytest.raises(NotFinite, match="finite"):
        Knn().fit(torch.full((4, 3), torch.nan), torch.arange(4)).scores(torch.randn(2, 3))
    for parameter, value, expected in (
        ("k", 0, "a whole number above 0"),
        ("temperature", 0.0, "a finite number above 0"),
        ("temperature", float("nan"), "a finite number"),
    ):
        with pytest.raises(BadValue, match=f"^knn.{parameter}: expected {expected}, got {value}$"):
            Knn(**{parameter: value})
    with pytest.raises(UnknownName, match="hnsw"):
        Knn(index="hnsw")


def test_faiss_finds_the_same_neighbours() -> None:
    pytest.importorskip("faiss", reason="faiss is an extra: pip install '.[faiss]'")
    (bank, labels), (queries, _) = blobs(300), blobs(50, seed=1)
    for k in (1, 20, 300):
        parts = Bank(labels, lambda: iter(bank.split(37)))
        ours, theirs = Knn(k).learn(parts).scores(queries), Knn(k, index="faiss").learn(parts).scores(queries)
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-7)
    with pytest.raises(NotFinite):
        Knn(index="faiss").fit(torch.full((4, 3), torch.nan), torch.arange(4)).scores(torch.randn(2, 3))


def test_without_faiss_the_extra_is_named() -> None:
    if find_spec("faiss"):
        pytest.skip("faiss is installed")
    (bank, labels), (queries, _) = blobs(30), blobs(5, seed=1)
    with pytest.raises(Missing, match="faiss-cpu"):
        Knn(index="faiss").fit(bank, labels).scores(queries)
