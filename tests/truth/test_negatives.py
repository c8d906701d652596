"""Negatives are the first places of torch's permutations, whichever way these are drawn."""

import pytest
import torch

from holdfast.core import Rng
from holdfast.numerics.geometry import negatives
from holdfast.numerics.geometry.negatives import draw_negatives, first_of_permutation


@pytest.mark.sweep(2)
@pytest.mark.parametrize("size", [1, 2, 3, 10, 999, 2**16, 999_999])
@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_the_first_places_are_those_of_the_whole_permutation(size, count, monkeypatch) -> None:
    monkeypatch.setattr(negatives, "SPARSE", 0)
    for seed in range(10):
        ours, whole = (torch.Generator().manual_seed(seed) for _ in range(2))
        expected = torch.randperm(size, generator=whole)[:count]
        assert first_of_permutation(size, min(size, count), ours).tolist() == expected.tolist()


def test_negatives_are_the_same_either_way(monkeypatch) -> None:
    rng, positions = Rng(3, ids=tuple("abcd")), torch.tensor([0, 5, 100, 999])
    drawn = draw_negatives(rng, positions, 1000, 20)
    monkeypatch.setattr(negatives, "SPARSE", 0)
    assert torch.equal(draw_negatives(rng, positions, 1000, 20), drawn)
    assert not (drawn == positions[:, None]).any()
    assert all(len(set(row)) == 20 for row in drawn.tolist())
