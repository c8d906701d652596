"""Failures against their definitions, written down a second time and plainly."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from holdfast.core import Encoder, Failure, Head, Rng, Shard, registry
from holdfast.core.divergence import read_divergence
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.nearest import nearest as nearest_of
from holdfast.numerics.geometry.negatives import draw_negatives
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.confused import Confused
from holdfast.parts.failures.drifted import Drifted
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.failures.outranked import Outranked
from holdfast.parts.probes.logits import Logits
from holdfast.runtime.errors import BadValue, Mismatch, Missing, NotEnough, Unsupported

N, M, S, D = 40, 12, 25, 6
FAILURES: list[Failure] = [
    Nearest(), Nearest("cosine"), Confused(5), Confused(5, "l2"), Drifted(0.1), Drifted(0.1, "cosine"), Outranked(1),
]  # fmt: skip


def bank(seed: int = 0, shift: float = 3.0) -> Tensor:
    return torch.randn(N, D, generator=torch.Generator().manual_seed(seed)) + shift


def shard(clean: Tensor, first: int = 4, labels: Tensor | None = None, head: Head | None = None) -> Shard:
    positions = torch.arange(first, first + M)
    ids = tuple(f"image {p}" for p in positions.tolist())
    encoder = Encoder(torch.nn.Flatten(), mean=0, std=1)
    return Shard(
        encoder, torch.zeros(M, 1, 2, 3), positions, Rng(7, ids=ids), clean, labels=labels,
        head=None if head is None else lambda probe: head,
    )  # fmt: skip


def moved(clean: Tensor, given: Shard, far: float) -> Tensor:
    noise = torch.randn(M, S, D, generator=torch.Generator().manual_seed(1)).double()
    return clean[given.positions, None].double() + far * noise


def plainly(failure: Failure, reps: Tensor, given: Shard) -> Tensor:
    """Which draws fail, one comparison after the other."""
    assert given.clean is not None
    clean, failed = given.clean.double(), torch.zeros(M, S, dtype=torch.bool)
    everything = [float(failure.divergence(clean[i], clean[j])) for i in range(N) for j in range(N) if i != j]
    others = draw_negatives(given.rng, given.positions, N, failure.negatives) if isinstance(failure, Confused) else None
    for row in range(M):
        own = int(given.positions[row])
        for draw in range(S):
            away = failure.divergence(reps[row, draw].expand(N, -1), clean)
            if isinstance(failure, Drifted):
                limit = sorted(everything)[-(-len(everything) * 10 // 100) - 1]
                failed[row, draw] = away[own] > limit
            else:
                rivals = [j for j in range(N) if j != own] if others is None else others[row].tolist()
                failed[row, draw] = bool((away[rivals] < away[own]).any())
    return failed


@pytest.mark.sweep(2)
@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_value_is_above_zero_where_the_definition_says(failure: Failure) -> None:
    clean = bank()
    given = shard(clean)
    reps = moved(clean, given, 1.0)
    value = failure.bind(given)(reps, torch.arange(M))
    failed = plainly(failure, reps, given)
    assert 0.1 < failed.double().mean() < 0.9
    assert torch.equal(value > 0, failed)


@pytest.mark.parametrize("name", ["dot", "hamming", "l1", "kl"])
@pytest.mark.parametrize("kind", [Nearest, Outranked])
def test_any_divergence_fails_where_the_definition_says(kind: type[Failure], name: str) -> None:
    """With a gradient that a search can climb, also where the divergence itself has none."""
    clean, failure = bank(), kind(**{"divergence": name} | ({"k": 1} if kind is Outranked else {}))
    given = shard(clean)
    reps, event = moved(clean, given, 1.0).requires_grad_(), failure.bind(given)
    value = event(reps, torch.arange(M))
    assert torch.equal(value > 0, plainly(failure, reps.detach(), given))
    (gradient,) = torch.autograd.grad(value.sum(), reps)
    assert gradient.isfinite().all()
    assert (gradient != 0).any(2).double().mean() > 0.8  # of l1 differences of coordinates may cancel
    rivals = Nearest(name).rivals(given, 3)
    assert rivals is not None
    assert rivals.positions is not None
    apart = read_divergence(name)(clean[given.positions, None].double(), clean[rivals.positions].double())
    assert (apart.diff(dim=1) >= 0).all()  # the nearest come first


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_some_rows_are_judged_as_all_of_them(failure: Failure) -> None:
    clean = bank()
    given = shard(clean)
    reps, event = moved(clean, given, 1.0), failure.bind(given)
    some = torch.tensor([7, 2, 2])
    torch.testing.assert_close(event(reps[some], some), event(reps, torch.arange(M))[some])


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_value_is_minus_one_without_a_disturbance_and_has_finite_gradients(failure: Failure) -> None:
    clean = bank()
    given = shard(clean)
    reps = clean[given.positions, None].double().requires_grad_()
    value = failure.bind(given)(reps, torch.arange(M))
    torch.testing.assert_close(value, torch.full_like(value, -1), atol=1e-3, rtol=0)
    (gradient,) = torch.autograd.grad(value.sum(), reps)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_gradients_are_those_of_the_value(failure: Failure) -> None:
    clean = bank()
    given = shard(clean)
    reps, event = moved(clean, given, 1.0)[:, :2].requires_grad_(), failure.bind(given)
    assert torch.autograd.gradcheck(lambda reps: event(reps, torch.arange(M)), reps, eps=1e-7, atol=1e-4)


def test_nearest_measures_the_distance_to_the_boundary() -> None:
    clean = bank()
    given = shard(clean)
    event, own = Nearest().bind(given), given.positions
    nearest = nearest_of(clean[own], clean, 2, L2())[:, 1]
    for share, value in ((0.5, 0.0), (0.25, -0.5), (0.75, 0.5)):
        reps = torch.lerp(clean[own].double(), clean[nearest].double(), share)[:, None]
        found = event(reps, torch.arange(M)).squeeze(1)
        assert (found >= value - 1e-3).all()  # a third image may be nearer still
        assert ((found - value).abs() < 1e-3).double().mean() > 0.5


@pytest.mark.parametrize("divergence", ["l2", "cosine"])
def test_images_that_are_alike_do_not_fail(divergence: str) -> None:
    clean = bank()
    clean[0], clean[5] = clean[6], clean[7] * (1 + 1e-9)
    given = shard(clean)
    reps = clean[given.positions, None].double()
    assert (Nearest(divergence).bind(given)(reps, torch.arange(M)) <= 0).all()
    constant = torch.ones(N, D)
    reps = constant[given.positions, None].double() + 0.1
    assert (Nearest(divergence).bind(shard(constant))(reps, torch.arange(M)) <= 0).all()


@pytest.mark.parametrize("divergence", ["l2", "cosine"])
@pytest.mark.parametrize(("factor", "offset"), [(1.0, 0.0), (1e3, 0.0), (1e4, 0.0), (1.0, 1e3), (1.0, 1e4)])
def test_outliers_and_offsets_hide_no_failure(divergence: str, factor: float, offset: float) -> None:
    clean = bank()
    clean[-1] *= factor
    clean = clean + offset
    given = shard(clean)
    reps = moved(clean, given, 1.0).float()
    own = given.positions.repeat_interleave(S)
    failed = pairwise.closer(reps.flatten(0, 1), clean, own, read_divergence(divergence))[0].view(M, S) > 0
    assert failed.double().mean() > 0.05
    assert torch.equal(Nearest(divergence).bind(given)(reps, torch.arange(M)) > 0, failed)


@pytest.mark.parametrize("failure", [Nearest(), Nearest("cosine"), Confused(39), Confused(39, "l2")], ids=str)
def test_an_image_that_occurs_twice_blinds_nobody(failure: Failure) -> None:
    """Neither the value nor its gradient know of the twin, whether a shard holds few twins or many."""
    clean = bank()
    alone = shard(clean[:38])
    twins = torch.cat([clean[:38], clean[4:6]])
    reps = moved(clean, alone, 0.3)
    for row in (0, 1, 5):
        found = []
        for bank_ in (clean[:38], twins):
            given = shard(bank_)
            event = (replace(failure, negatives=len(bank_) - 1) if isinstance(failure, Confused) else failure).bind(
                given
            )
            at = reps[row : row + 1].clone().requires_grad_()
            value = event(at, torch.tensor([row]))
            (gradient,) = torch.autograd.grad(value.sum(), at)
            found.append((value.detach(), gradient))
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
        assert found[0][1].abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_events_are_judged_in_float64_whatever_the_encoder_gives(failure: Failure, dtype: torch.dtype) -> None:
    clean = bank()
    given = shard(clean)
    reps = moved(clean, given, 1.0).to(dtype)
    event = failure.bind(given)
    value = event(reps, torch.arange(M))
    assert value.dtype == torch.float64
    torch.testing.assert_close(value, event(reps.double(), torch.arange(M)))


def test_confused_agrees_with_the_margins_that_certificates_bound() -> None:
    clean = bank()
    given = shard(clean)
    reps, failure = moved(clean, given, 1.0), Confused(5)
    others = draw_negatives(given.rng, given.positions, N, 5)
    margin = Cosine().between(clean[given.positions], clean[others])
    value = failure.bind(given)(reps, torch.arange(M))
    for draw in range(S):
        assert torch.equal(value[:, draw] > 0, (margin(reps[:, draw]) < 0).any(1))


def test_misclassified_is_what_the_head_says_and_counts_ties() -> None:
    clean, generator = bank(shift=0.0), torch.Generator().manual_seed(3)
    head = Head(torch.randn(4, D, generator=generator), torch.randn(4, generator=generator), torch.tensor([1, 3, 5, 9]))
    labels = head.classes[torch.arange(N) % 4]
    given = shard(clean, labels=labels, head=head)
    reps = moved(clean, given, 0.5)
    failed = Misclassified().bind(given)(reps, torch.arange(M)) > 0
    for draw in range(S):
        assert torch.equal(failed[:, draw], ~head.correct(reps[:, draw].float(), labels[given.positions]))
    level = Head(torch.zeros(4, D), torch.zeros(4), head.classes)
    value = Misclassified().bind(shard(clean, labels=labels, head=level))(reps.float(), torch.arange(M))
    assert (value > 0).all()


def test_bad_input_is_refused() -> None:
    clean = bank()
    with pytest.raises(Missing, match="misclassified"):
        Misclassified().bind(shard(clean))
    with pytest.raises(NotEnough):
        Nearest().bind(Shard(shard(clean).encoder, torch.zeros(1, 1, 2, 3), torch.tensor([0]), Rng(0), clean[:1]))
    with pytest.raises(NotEnough, match="drifted"):
        Drifted(0.1).bind(shard(torch.ones(N, D)))
    with pytest.raises(BadValue, match="drifted"):
        Drifted(1.0)
    with pytest.raises(BadValue, match="confused"):
        Confused(0)
    for cls in (Nearest, Confused):
        with pytest.raises(BadValue, match=r"'cosine'\?"):
            cls(divergence="cosin")


def test_a_classifiers_logits_are_a_head_and_probabilities_are_not() -> None:
    logits = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(9) % 3
    head = Logits().fit(logits, labels)
    assert torch.equal(head.correct(logits, labels), logits.argmax(1) == labels)
    with pytest.raises(Unsupported, match="softmax"):
        Logits().fit(logits.softmax(1), labels)
    with pytest.raises(Mismatch, match="3 outputs"):
        Logits().fit(logits, labels + 1)
    with pytest.raises(Mismatch, match="1 outputs"):
        Logits().fit(logits[:, :1], labels * 0)


def test_outputs_that_are_no_classes_are_no_logits() -> None:
    """Features of a network, and classes in another order, are worse than guesses; weak classifiers are not."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 10
    features = torch.randn(60, 100, generator=generator)
    said = r"the classes, in the order of the labels, got 100 outputs that are right about \d of 60 images"
    with pytest.raises(Mismatch, match=said):
        Logits().fit(features, labels)
    with pytest.raises(Mismatch, match=r"12 outputs.*0 of 60"):
        Logits().fit(5 * torch.eye(12)[labels + 2], labels)
    right = 5 * torch.eye(10)[labels] + 0.1 * features[:, :10]
    with pytest.raises(Mismatch, match=r"10 outputs.*0 of 60"):
        Logits().fit(right.roll(1, 1), labels)
    assert len(Logits().fit(right, labels).classes) == 10
    wide = torch.zeros(60, 1000).index_copy(1, torch.arange(10) * 100, right)  # as ImageNet's, of which ten are asked
    assert len(Logits().fit(wide, labels * 100).classes) == 1000
    untrained = torch.zeros(60, 10)
    untrained[:, 3] = 5.0
    assert len(Logits().fit(untrained, labels).classes) == 10, "no better than guesses, as a fresh network is"
    assert len(Logits().fit(5 * torch.eye(3)[:1], torch.zeros(1, dtype=torch.long)).classes) == 3, (
        "one class, and right"
    )


def test_every_failure_is_tested_here() -> None:
    here = {"nearest", "confused", "drifted", "misclassified", "outranked"}
    beside = {"miscaptioned", "unmatched", "collided", "hub"}  # with measures of captions, thresholds and an index
    assert set(registry.names("failures")) == here | beside
