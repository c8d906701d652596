"""The nearest of a bank read in chunks are those of brute force: any cut, ties, any order of the bank."""

import math

import pytest
import torch
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from holdfast.core import HoldfastError
from holdfast.numerics.geometry import top_k
from holdfast.numerics.geometry.top_k import top
from holdfast.runtime.errors import BadValue, Mismatch, NotEnough, NotFinite


def signs(rows: int, dim: int, seed: int) -> Tensor:
    """Vectors of -1 and 1, whose cosines are exact in float32 where dim is a power of 4, with many ties."""
    return 2.0 * torch.randint(0, 2, (rows, dim), generator=torch.Generator().manual_seed(seed)) - 1


def normal(rows: int, dim: int, seed: int) -> Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


def brute(queries: Tensor, bank: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """All cosines in float64, sorted so that equal ones keep their order."""
    unit = torch.nn.functional.normalize
    cosines = unit(queries.double()) @ unit(bank.double()).T
    order = cosines.sort(dim=1, descending=True, stable=True)
    return order.values[:, :k], order.indices[:, :k]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(top_k, "ROWS", 5)
    monkeypatch.setattr(top_k, "COLUMNS", 16)


@pytest.mark.parametrize("k", [1, 7, 16, 40, 100])
@pytest.mark.parametrize(
    "sizes", [[100], [1] * 100, [33, 0, 2, 65], [16, 16, 68]], ids=["whole", "single", "uneven", "even"]
)
@pytest.mark.usefixtures("small_blocks")
def test_ties_and_cuts(k: int, sizes: list[int]) -> None:
    """Cosines of 17 distinct values among 100 members: nearly everything is a tie."""
    queries, bank = signs(12, 16, 0), signs(100, 16, 1)
    cosines, positions = top(queries, bank.split(sizes), k)
    expected, places = brute(queries, bank, k)
    assert torch.equal(positions, places)
    assert torch.equal(cosines.double(), expected)
    assert cosines.dtype == torch.float32


@pytest.mark.parametrize("order", ["as drawn", "rising", "falling"])
@pytest.mark.usefixtures("small_blocks")
def test_the_order_of_the_bank_changes_no_neighbour(order: str) -> None:
    """Members that come nearer and nearer are the hard case: each of them is a candidate."""
    queries, bank = normal(6, 8, 2), normal(500, 8, 3)
    if order != "as drawn":
        towards = torch.nn.functional.normalize(bank) @ queries[0]
        bank = bank[towards.argsort(descending=order == "falling")]
    cosines, positions = top(queries, bank.split(70), 20)
    expected, places = brute(queries, bank, 20)
    assert torch.equal(positions, places)
    torch.testing.assert_close(cosines.double(), expected, rtol=0, atol=1e-6)


def test_real_blocks_against_scikit_learn() -> None:
    queries, bank = normal(700, 32, 4), normal(9000, 32, 5)
    peer = NearestNeighbors(n_neighbors=50, metric="cosine", algorithm="brute").fit(bank.double())
    distances, places = peer.kneighbors(queries.double())
    cosines, positions = top(queries, bank.split(2500), 50)
    torch.testing.assert_close(1 - cosines.double(), torch.from_numpy(distances), rtol=0, atol=1e-6)
    assert (positions == torch.from_numpy(places)).double().mean() > 0.999  # others differ by rounding
    again = top(queries, bank.split(777), 50)
    assert torch.equal(cosines, again[0])
    assert torch.equal(positions, again[1])


def test_zero_has_cosine_zero_and_signs_of_zero_are_one() -> None:
    bank = torch.tensor([[0.0, 0.0], [0.0, -1.0], [0.0, 1.0], [-1.0, 0.0], [2.0, 0.0]])
    cosines, positions = top(torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 0.0]]), [bank], 5)
    assert cosines.tolist() == [[1, 0, 0, 0, -1], [1, 0, 0, 0, -1], [0, 0, 0, 0, 0]]
    assert positions.tolist() == [[4, 0, 1, 2, 3], [3, 0, 1, 2, 4], [0, 1, 2, 3, 4]]


def test_keys_are_ordered_as_cosine_then_position() -> None:
    cosines = torch.tensor([-1.0, -0.5, -1e-38, 0.0, -0.0, 1e-38, 0.5, 1.0])
    keys = top_k._keys(cosines, torch.tensor([7, 6, 5, 4, 3, 2, 1, 0]))
    assert keys.argsort().tolist() == list(range(8))
    back = top_k._cosines(top_k._keys(cosines, torch.full((8,), 2**32 - 1)))
    assert torch.equal(back, cosines)


def test_a_collapsed_encoder_has_the_first_members_for_neighbours() -> None:
    _, positions = top(torch.ones(3, 16), torch.ones(5000, 16).split(999), 4)
    assert positions.tolist() == [[0, 1, 2, 3]] * 3


def test_fewer_members_than_asked_for() -> None:
    cosines, positions = top(torch.eye(2), iter([torch.eye(2), -torch.eye(2)]), 200)
    assert positions.tolist() == [[0, 1, 3, 2], [1, 0, 2, 3]]
    assert cosines.tolist() == [[1, 0, 0, -1]] * 2


def test_no_queries_have_no_neighbours() -> None:
    cosines, positions = top(torch.empty(0, 4), [torch.eye(4)], 3)
    assert cosines.shape == positions.shape == (0, 3)


def test_scale_and_precision_of_the_input_do_not_matter() -> None:
    queries, bank = signs(4, 16, 6), signs(60, 16, 7)
    expected = top(queries, [bank], 9)
    other = top(1e6 * queries.double(), [0.25 * bank.half()], 9)
    assert torch.equal(expected[1], other[1])
    torch.testing.assert_close(expected[0], other[0])


@pytest.mark.parametrize(
    ("queries", "bank", "k", "kind", "message"),
    [
        (torch.eye(2), [torch.eye(2)], 0, BadValue, "k >= 1"),
        (torch.eye(2), [], 3, NotEnough, "bank"),
        (torch.eye(2), [torch.empty(0, 2)], 3, NotEnough, "bank"),
        (torch.eye(2), [torch.eye(2), torch.eye(3)], 3, Mismatch, "got 3"),
        (torch.full((2, 2), math.nan), [torch.eye(2)], 3, NotFinite, "queries"),
        (torch.eye(2), [torch.eye(2), torch.tensor([[1.0, math.inf]])], 3, NotFinite, "bank"),
    ],
)
def test_bad_input(queries, bank, k, kind: type[HoldfastError], message) -> None:
    with pytest.raises(kind, match=message):
        top(queries, bank, k)
