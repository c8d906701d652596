"""The linear probe that streams: the optimum of the convex problem, little memory, and what its stream is made of."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.core import Bank, Head
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.linear_sgd import LinearSgd
from holdfast.parts.probes.shared import stream as _stream
from holdfast.runtime.errors import BadValue, Mismatch, NotEnough, NotFinite


def blobs(size: int = 1200, apart: float = 0.7, dim: int = 16, classes: int = 5) -> tuple[Tensor, Tensor]:
    """Correlated representations on scales from 0.01 to 100 and far from 0; labels 10, 20, ..."""
    random = torch.Generator().manual_seed(3)
    labels = torch.randint(classes, (size,), generator=random)
    reps = apart * torch.randn(classes, dim, generator=random)[labels] + torch.randn(size, dim, generator=random)
    reps = reps @ (torch.eye(dim) + 0.5 * torch.randn(dim, dim, generator=random))
    return reps * torch.logspace(-2, 2, dim) + 50, 10 * (labels + 1)


def loss(head: Head, reps: Tensor, labels: Tensor, penalty: float = 1.0) -> float:
    """What both probes minimise, from its formula."""
    weights = head.weights.double() * reps.double().std(0, correction=0)
    logits = reps.double() @ head.weights.double().T + head.bias.double()
    return float(F.cross_entropy(logits, head.numbers(labels)) + penalty / 2 / len(reps) * weights.square().sum())


def right(head: Head, reps: Tensor, labels: Tensor) -> float:
    return float((head.ranks(reps, labels) == 0).double().mean())


@pytest.mark.sweep(3)
@pytest.mark.parametrize("apart", [0.2, 0.7, 3.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_it_reaches_the_optimum_that_linear_finds(apart: float, classes: int) -> None:
    reps, labels = blobs(apart=apart, classes=classes)
    # of two classes scikit-learn penalises the difference w of the rows: ½ ||w||² = ||-w/2||² + ||w/2||²
    best, ours = Linear(0.5 if classes == 2 else 1).fit(reps, labels), LinearSgd().fit(reps, labels)
    least = loss(best, reps, labels)
    assert least - 1e-5 < loss(ours, reps, labels) < least + 5e-3
    assert right(ours, reps, labels) == pytest.approx(right(best, reps, labels), abs=0.01)
    assert ours.classes.tolist() == best.classes.tolist()


@pytest.mark.slow
def test_the_penalty_is_that_of_linear() -> None:
    reps, labels = blobs()
    for penalty in (1.0, 300.0):
        ours, best = LinearSgd(penalty=penalty).fit(reps, labels), Linear(penalty).fit(reps, labels)
        assert loss(ours, reps, labels, penalty) == pytest.approx(loss(best, reps, labels, penalty), abs=5e-3)
        assert torch.allclose(ours.weights, best.weights, atol=0.05 * float(best.weights.abs().max()))


def test_a_stream_gives_the_same_head_however_it_is_cut() -> None:
    reps, labels = blobs()
    probe = LinearSgd(epochs=5, batch_size=64, pool=256)
    whole = probe.fit(reps, labels)
    for size in (1, 100, 128, 999):
        parts = probe.learn(Bank(labels, lambda size=size: iter(reps.split(size))))
        assert torch.equal(parts.weights, whole.weights)
        assert torch.equal(parts.bias, whole.bias)
    assert torch.equal(probe.fit(reps, labels).weights, whole.weights)
    other = LinearSgd(epochs=5, batch_size=64, pool=256, seed=1).fit(reps, labels)
    assert not torch.equal(other.weights, whole.weights)


@pytest.mark.slow
def test_a_small_pool_does_nearly_as_well() -> None:
    reps, labels = blobs(apart=1.5)
    best, ours = Linear().fit(reps, labels), LinearSgd(batch_size=64, pool=256).fit(reps, labels)
    assert right(ours, reps, labels) == pytest.approx(right(best, reps, labels), abs=0.02)


def test_a_large_offset_costs_no_digits() -> None:
    reps, labels = blobs(apart=2.0)
    far = (reps.double() / reps.std(0) + 1e6).double()
    mean, scale = _stream.moments(_stream.blocks(Bank(labels, lambda: iter(far.split(70))), labels, 64))
    assert torch.allclose(mean, far.mean(0), rtol=1e-12)
    assert torch.allclose(scale, far.std(0, correction=0), rtol=1e-8)
    naive = (far.square().mean(0) - far.mean(0).square()).clamp_min(0).sqrt()
    assert not torch.allclose(naive, scale, rtol=1e-5)  # what merging deviations is for


def test_a_constant_feature_changes_nothing() -> None:
    reps, labels = blobs()
    more = torch.cat([reps, torch.full((len(reps), 1), 0.1)], 1)
    head, least = LinearSgd(epochs=20).fit(more, labels), LinearSgd(epochs=20).fit(reps, labels)
    assert head.weights[:, -1].abs().max() == 0
    assert torch.allclose(head.weights[:, :-1], least.weights, atol=0.05 * float(least.weights.abs().max()))


def test_an_epoch_gives_every_row_once_with_its_target_in_an_order_of_its_own() -> None:
    rows = torch.arange(1000.0)[:, None]
    bank = Bank(torch.arange(1000), lambda: iter(rows.split(77)))
    random, orders = torch.Generator().manual_seed(0), []
    for _ in range(2):
        parts = list(_stream.shuffle_stream(_stream.blocks(bank, bank.labels, 128), random))
        reps, targets = torch.cat([part for part, _ in parts])[:, 0], torch.cat([part for _, part in parts])
        assert torch.equal(reps.long(), targets)
        assert torch.equal(reps.sort().values, rows[:, 0])
        assert max(len(part) for part, _ in parts) <= 128
        orders.append(reps)
    assert not torch.equal(*orders)
    late = orders[0][-128:]
    assert late.min() < 1000 - 3 * 128  # some stay in the pool for long


def test_some_rows_come_in_the_order_they_were_asked_for() -> None:
    rows = torch.randn(50, 3)
    places = torch.tensor([49, 0, 17, 17, 18])
    assert torch.equal(_stream.select(Bank(torch.arange(50), lambda: iter(rows.split(9))), places), rows[places])
    with pytest.raises(Mismatch, match="got 45"):
        _stream.select(Bank(torch.arange(50), lambda: iter(rows[:45].split(9))), places)


def test_what_cannot_be_learned_is_refused() -> None:
    reps, labels = blobs(100)
    bad = reps.clone()
    bad[90, 3] = torch.nan
    with pytest.raises(NotFinite, match="1 of"):
        LinearSgd(batch_size=8, pool=16).fit(bad, labels)
    with pytest.raises(NotEnough, match="of 1"):
        LinearSgd().fit(reps, torch.zeros_like(labels))
    for count in (90, 101):
        with pytest.raises(Mismatch, match=f"{count} labels"):
            LinearSgd().learn(Bank(torch.arange(count) % 3, lambda: iter(reps.split(30))))
    with pytest.raises(NotFinite, match=r"1e\+30"):
        LinearSgd(rate=1e30).fit(*blobs(apart=0.0))
    for parameter, value, message in (
        ("epochs", 0, "linear_sgd.epochs: expected a whole number above 0, got 0"),
        ("batch_size", 0, "linear_sgd.batch_size: expected a whole number above 0, got 0"),
        ("rate", 0.0, "linear_sgd.rate: expected a finite number above 0, got 0.0"),
        ("penalty", -1.0, "linear_sgd.penalty: expected 0 or more, got -1.0"),
        ("momentum", 1.0, "linear_sgd: expected 0 <= momentum < 1 and a pool of two batches or more"),
        ("pool", 511, "linear_sgd: expected 0 <= momentum < 1 and a pool of two batches or more"),
    ):
        with pytest.raises(BadValue, match=f"^{message}"):
            LinearSgd(**{parameter: value})


STREAM = """
import resource, sys, torch
from holdfast.core import Bank
from holdfast.parts.probes.linear_sgd import LinearSgd
ROWS, DIM, CHUNK = 1_000_000, 128, 10_000
labels = torch.arange(ROWS) % 4
centres = 2 * torch.randn(4, DIM, generator=torch.Generator().manual_seed(0))
def chunks():
    for start in range(0, ROWS, CHUNK):
        random = torch.Generator().manual_seed(start)
        yield centres[labels[start : start + CHUNK]] + torch.randn(CHUNK, DIM, generator=random)
probe = LinearSgd(epochs=1, pool=2**14)
first = Bank(labels[:CHUNK], lambda: iter([next(chunks())]))
probe.learn(first)  # what libraries take at their first use
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
head = probe.learn(Bank(labels, chunks))
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
right = float((head.ranks(first.reps(), first.labels) == 0).double().mean())
print(grown, right)
"""


@pytest.mark.slow
def test_a_million_rows_need_the_memory_of_a_pool() -> None:
    """The bank is 488 MiB, the pool 8 MiB, labels and their numbers among the classes 8 MiB each."""
    found = subprocess.run([sys.executable, "-c", STREAM], capture_output=True, text=True, check=True)
    grown, right = map(float, found.stdout.split())
    assert grown < 128
    assert right > 0.99
