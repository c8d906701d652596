"""Comparisons of all pairs equal brute force: every divergence, ties and duplicates, any block size."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from divergences import divergence
from holdfast.core import Divergence, registry
from holdfast.numerics.geometry import blocks as in_memory
from holdfast.numerics.geometry import pairwise as neighbours
from holdfast.numerics.geometry.cache import Remembered
from holdfast.numerics.geometry.nearest import nearest
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.divergences.l1 import L1
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.divergences.squared_l2 import SquaredL2

NAMES = sorted(registry.names("divergences"))
QUICK = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def brute(a: Tensor, b: Tensor, name: str) -> Tensor:
    """d(a_i, b_j), one pair per row, no matrix product."""
    rows, columns = a.double().repeat_interleave(len(b), 0), b.double().repeat(len(a), 1)
    return divergence(name)(rows, columns).reshape(len(a), len(b))


def lattice(shape, random) -> Tensor:
    return torch.randint(-1, 2, shape, generator=random).float()


def smooth(shape, random) -> Tensor:
    return torch.randn(shape, generator=random)


def constant(shape, random) -> Tensor:
    return torch.randn(1, shape[1], generator=random).repeat(shape[0], 1)


def zeros(shape, random) -> Tensor:
    return torch.zeros(shape)


def some_zero(shape, random) -> Tensor:
    return torch.where(torch.rand(shape[0], 1, generator=random) < 0.4, 0.0, torch.randn(shape, generator=random))


def offset(shape, random) -> Tensor:
    """Float32 numbers near 10⁴ that differ in their last bits."""
    return 1e4 + torch.randint(0, 4, shape, generator=random) * 2.0**-10


def far_origin(shape, random) -> Tensor:
    """Tiny differences between small numbers, seen from a first member that is far away."""
    bank = (1e-6 + 1e-13 * torch.randn(shape, generator=random)).double()
    bank[0] = 9.5
    return bank


def scaled(shape, random) -> Tensor:
    return torch.randn(shape, generator=random).double() * 10 ** (6 * torch.rand(shape[0], 1, generator=random) - 3)


KINDS = [lattice, smooth, constant, zeros, some_zero, offset, far_origin, scaled]


@st.composite
def cases(draw):
    """A bank and queries of one kind, some of them exact copies of bank members, and a block size.

    Features stay below 30 in half of the dimensions: as log-variances they must not overflow.
    """
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    m, n, dim = draw(st.integers(1, 6)), draw(st.integers(2, 12)), 2 * draw(st.integers(1, 4))
    both = draw(st.sampled_from(KINDS))((n + m, dim), random)
    both[:, dim // 2 :] = both[:, dim // 2 :].fmod(30)
    bank, queries = both[:n].clone(), both[n:].clone()
    if draw(st.booleans()):
        bank[int(torch.randint(n, (1,), generator=random))] = bank[-1]
        queries[0] = bank[int(torch.randint(n, (1,), generator=random))]
    own = torch.randint(n, (m,), generator=random)
    return queries, bank, own, draw(st.sampled_from([1, 64, 300, 64 * 2**20]))


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(case=cases())
def test_closer_is_brute_force(name, case, monkeypatch) -> None:
    queries, bank, own, size = case
    monkeypatch.setattr(in_memory, "BLOCK_BYTES", size)
    distances = brute(queries, bank, name)
    rows = torch.arange(len(queries))
    nearer = distances < distances[rows, own][:, None]
    by_query, by_member = neighbours.closer(queries, bank, own, divergence(name))
    assert torch.equal(by_query, nearer.sum(1))
    assert torch.equal(by_member, nearer.sum(0))


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(case=cases())
def test_share_below_is_brute_force(name, case, monkeypatch) -> None:
    queries, bank, _, size = case
    monkeypatch.setattr(in_memory, "BLOCK_BYTES", size)
    distances = brute(bank, bank, name)
    pairs = (
        ~torch.eye(len(bank), dtype=torch.bool)
        if not divergence(name).symmetric
        else torch.ones_like(distances).triu(1).bool()
    )
    # values that no pair has, values that pairs have (ties), and the drift of queries
    others = [0.0, 1.0, *([torch.inf] if len(queries) % 2 else [])]  # with infinity there is one cell alone
    values = torch.cat([distances[0], torch.tensor(others).double(), brute(queries, bank, name)[:, 0]])
    wanted = (distances[pairs] <= values[:, None]).double().mean(1)
    torch.testing.assert_close(neighbours.share_below(bank, values, divergence(name)), wanted, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(case=cases(), many=st.sampled_from([1, 1000]))
def test_near_is_brute_force(name, case, many, monkeypatch) -> None:
    """Both ways: all limits in one go, and one after the other."""
    queries, bank, _, size = case
    monkeypatch.setattr(in_memory, "BLOCK_BYTES", size)
    monkeypatch.setattr(neighbours, "MANY", many)
    distances, pairs = brute(bank, bank, name), ~torch.eye(len(bank), dtype=torch.bool)
    limits = torch.cat([distances[0], torch.tensor([0.0, torch.inf]).double(), brute(queries, bank, name)[:, 0]])
    inside = ((distances[..., None] <= limits) & pairs[..., None]).double()
    wanted = (inside.sum(1) + inside.sum(0)) / (2 * (len(bank) - 1))
    torch.testing.assert_close(neighbours.near(bank, limits, divergence(name)), wanted, rtol=0, atol=1e-15)
    few = limits[:3].clone()
    few[0] = torch.nan
    found = neighbours.near(bank, few, divergence(name))
    assert found[:, 0].isnan().all()
    torch.testing.assert_close(found[:, 1:], wanted[:, 1:3], rtol=0, atol=1e-15)
    assert neighbours.near(bank, few[:1], divergence(name)).isnan().all()


def test_share_below_of_very_small_and_very_large_values() -> None:
    bank = torch.tensor([[0.0], [0.0], [1e-200], [3.0]], dtype=torch.float64)  # pairs at 0, 1e-200 and 3
    for values in ([0.0], [5e-324], [1e-310, 1e-200], [2e-200, 1e300], [-1.0, 0.0]):
        wanted = [sum(pair <= value for pair in (0, 1e-200, 1e-200, 3, 3, 3)) / 6 for value in values]
        placed = neighbours.share_below(bank, torch.tensor(values, dtype=torch.float64), L1())
        assert placed.tolist() == wanted


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(case=cases(), k=st.integers(1, 14))
def test_nearest_is_brute_force(name, case, k, monkeypatch) -> None:
    queries, bank, _, size = case
    monkeypatch.setattr(in_memory, "BLOCK_BYTES", size)
    wanted = brute(queries, bank, name).sort(dim=1, stable=True).indices[:, :k]
    assert torch.equal(nearest(queries, bank, k, divergence(name)), wanted)


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(case=cases())
def test_pairwise_is_brute_force(name, case, monkeypatch) -> None:
    queries, bank, _, size = case
    monkeypatch.setattr(in_memory, "BLOCK_BYTES", size)
    distances = neighbours.pairwise(queries, bank, divergence(name))
    torch.testing.assert_close(distances, brute(queries, bank, name), rtol=1e-9, atol=1e-12)


def test_an_exact_duplicate_is_not_nearer_and_own_image_does_not_count() -> None:
    bank = torch.tensor([[0.0, 0.0], [0.0, 0.0], [3.0, 0.0], [1.0, 0.0]])
    query = torch.tensor([[1.0, 0.0]])
    by_query, by_member = neighbours.closer(query, bank, torch.tensor([0]), L2())
    assert by_query.tolist() == [1]  # only the last: position 1 is exactly as far, position 2 farther
    assert by_member.tolist() == [0, 0, 0, 1]
    assert neighbours.closer(bank[:1], bank, torch.tensor([0]), L2())[0].tolist() == [0]


def test_share_below_counts_every_pair_once() -> None:
    bank = torch.tensor([[0.0], [1.0], [3.0]])  # pairs at 1, 2 and 3
    values = torch.tensor([[0.5, 1.0], [2.5, 3.0]])
    expected = torch.tensor([[0, 1 / 3], [2 / 3, 1]], dtype=torch.float64)
    torch.testing.assert_close(neighbours.share_below(bank, values, L2()), expected)


def test_share_below_of_nan_is_nan() -> None:
    assert neighbours.share_below(torch.eye(3), torch.tensor([torch.nan, 9.0]), L2()).isnan().tolist() == [True, False]


def test_what_has_no_distance_misplaces_no_other() -> None:
    bank, values = torch.randn(50, 4, dtype=torch.float64), torch.linspace(0, 5, 40, dtype=torch.float64)
    many = torch.cat([values, values.new_full((25,), torch.nan)])
    expected = (torch.pdist(bank) <= values[:, None]).double().mean(1)
    torch.testing.assert_close(neighbours.share_below(bank, many, L2())[:40], expected)
    assert neighbours.share_below(bank, many[40:], L2()).isnan().all()


def test_a_far_origin_does_not_hide_tiny_differences() -> None:
    bank = torch.tensor([[1e4], [1e-6], [1e-6 + 1e-13]], dtype=torch.float64)
    query = torch.tensor([[1e-6 + 0.2e-13]], dtype=torch.float64)
    assert neighbours.closer(query, bank, torch.tensor([1]), L2())[0].tolist() == [0]
    assert neighbours.closer(query, bank, torch.tensor([2]), L2())[0].tolist() == [1]
    torch.testing.assert_close(neighbours.pairwise(query, bank, L2()), (query - bank.T).abs(), rtol=1e-9, atol=0)


@pytest.fixture
def blocks(monkeypatch):
    """Count the blocks of distances that are computed."""
    computed: list[Divergence] = []
    for kind in (SquaredL2, Cosine):

        def counted(self, rows, columns, block=kind.block):
            computed.append(self)
            return block(self, rows, columns)

        monkeypatch.setattr(kind, "block", counted)
    monkeypatch.setattr(neighbours, "_CLOSER", Remembered(2))
    monkeypatch.setattr(neighbours, "_PLACED", Remembered(2))
    return computed


def test_what_is_nearer_is_counted_once_for_equal_representations(blocks):
    bank, own = torch.randn(30, 4), torch.arange(30)
    queries = bank + 0.5 * torch.randn(30, 4)
    first = neighbours.closer(queries, bank, own, L2())
    first[0].zero_()  # what is remembered is out of reach
    done = len(blocks)
    again = neighbours.closer(queries.double(), bank.double(), own, L2())
    assert len(blocks) == done
    truth = torch.cdist(queries.double(), bank.double())
    assert torch.equal(again[0], (truth < truth.diagonal()[:, None]).sum(1))
    queries[0] = bank[1]  # changed in place: asked anew
    truth = torch.cdist(queries.double(), bank.double())
    assert torch.equal(neighbours.closer(queries, bank, own, L2())[0], (truth < truth.diagonal()[:, None]).sum(1))
    assert len(blocks) > done
    neighbours.closer(queries, bank, own, Cosine())
    assert len(blocks) > done + 1


def test_values_that_were_placed_with_others_are_not_placed_again(blocks):
    bank, values = torch.randn(30, 4), torch.rand(3, 5, dtype=torch.float64) * 4
    shares = neighbours.share_below(bank, values, L2())
    done = len(blocks)
    assert torch.equal(neighbours.share_below(bank, values[1, [3, 0]], L2()), shares[1, [3, 0]])
    assert len(blocks) == done
    new = torch.cat([values[0], values.new_tensor([1.25, 99.0])])
    pairs = torch.nn.functional.pdist(bank.double())
    expected = (pairs[None] <= new[:, None]).double().mean(1)
    torch.testing.assert_close(neighbours.share_below(bank, new, L2()), expected, rtol=0, atol=1e-12)
    assert len(blocks) > done
    done = len(blocks)
    neighbours.share_below(2 * bank, new, L2())
    assert len(blocks) > done
