"""Draws of a noise: when an image's answer is known, how often that is wrong, and whether company changes anything."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Encoder, Noise, Rng, Shard, Threat
from holdfast.numerics import statistics
from holdfast.numerics.statistics import betting
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.estimators.counting import Counting
from holdfast.parts.estimators.precise import Precise
from holdfast.parts.estimators.sequential import Sequential
from holdfast.parts.estimators.shared.draws import Draws, looks
from holdfast.parts.failures.confused import Confused
from holdfast.parts.failures.drifted import Drifted
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.rare_failures import RareFailures
from holdfast.parts.observations.sampled import Sampled
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.truncated_gaussian import TruncatedGaussian
from holdfast.parts.threats.uniform import Uniform
from holdfast.runtime.errors import BadValue, NotFinite

N = 24


def outcomes(p: float, images: int, draws: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(images, draws, generator=generator) < p).to(torch.int8)


def images(count: int = N, seed: int = 0) -> Tensor:
    return 0.2 + 0.6 * torch.rand(count, 1, 2, 2, generator=torch.Generator().manual_seed(seed))


def shard(encoder: Encoder, x: Tensor, rows: slice = slice(None)) -> Shard:
    positions = torch.arange(len(x))[rows]
    ids = tuple(f"image {p}" for p in positions.tolist())
    with torch.no_grad():
        clean = encoder(x)
    encoder.passes = type(encoder.passes)()
    return Shard(encoder, x[rows], positions, Rng(3, ids=ids), clean)


@pytest.fixture
def pixels() -> Encoder:
    return Encoder(nn.Flatten(), mean=0, std=1, name="pixels")


@pytest.mark.parametrize("most", [1, 31, 32, 100, 5000, 100_000])
def test_looks_cover_all_draws_and_do_not_depend_on_how_many_may_follow(most: int) -> None:
    seen = list(looks(most))
    assert seen[0][0] == 0
    assert seen[-1][1] == most
    assert all(a[1] == b[0] for a, b in itertools.pairwise(seen))
    assert seen[:-1] == list(looks(100_000))[: len(seen) - 1]


@pytest.mark.parametrize("p", [0.02, 1.0, *(pytest.param(p, marks=pytest.mark.slow) for p in (0.001, 0.005, 0.3))])
def test_sequential_answers_are_wrong_no_more_often_than_alpha(p: float) -> None:
    rule = Sequential(2000, gamma=0.01, alpha=0.1)
    failed, drawn = rule.count_until_stop(outcomes(p, 2000, 2000))
    wrong = rule.frequent(failed, drawn) if p < 0.01 else rule.rare(failed, drawn)
    assert float(wrong.double().mean()) <= 0.1
    assert (drawn < 2000).any()
    if p in (0.3, 1.0):
        assert int(drawn.max()) <= 64
        assert rule.frequent(failed, drawn).all()


def test_sequential_decides_what_is_clear() -> None:
    rule = Sequential(10_000, gamma=0.01, alpha=0.05)
    failed, drawn = rule.count_until_stop(outcomes(0.0, 3, 10_000))
    assert rule.rare(failed, drawn).all()
    assert int(drawn.max()) <= 1024  # 299 successes in a row are the least that could do


@pytest.mark.parametrize("p", [0.05, *(pytest.param(p, marks=pytest.mark.slow) for p in (0.0, 0.5))])
def test_precise_intervals_are_as_narrow_as_asked_and_cover(p: float) -> None:
    rule = Precise(20_000, precision=0.05, alpha=0.1)
    failed, drawn = rule.count_until_stop(outcomes(p, 300, 5000))
    low, high = rule.interval(failed, drawn)
    assert (high - low <= 0.1).all()
    assert float(((low <= p) & (p <= high)).double().mean()) >= 0.9
    assert int(drawn.max()) <= (512 if p == 0 else 5000)


def test_counting_gives_the_exact_interval() -> None:
    rule = Counting(50)
    failed, drawn = rule.count_until_stop(outcomes(0.2, 5, 80))
    assert drawn.tolist() == [50] * 5
    low, high = rule.interval(failed, drawn)
    expected = [statistics.clopper_pearson(k, 50) for k in failed.tolist()]
    assert torch.stack([low, high], 1).tolist() == [list(ends) for ends in expected]


@pytest.mark.parametrize(
    ("rule", "values"),
    [(Counting, {"most": 0}), (Counting, {"most": 10**6}), (Sequential, {"gamma": 0.0}), (Sequential, {"alpha": 0.6}),
     (Precise, {"precision": 0.5}), (Precise, {"alpha": 0.0})],
)  # fmt: skip
def test_impossible_rules_are_refused(rule: type[Draws], values: dict[str, float]) -> None:
    with pytest.raises(BadValue, match="expected"):
        rule(**values)


def test_share_of_failing_draws_is_the_known_one(pixels: Encoder) -> None:
    """Four pixels move by up to ε: the largest moves more than t with probability 1 - (t/ε)^4."""
    x, failure, step = images(), Drifted(0.02, "linf"), 0.1
    given = shard(pixels, x)
    assert given.clean is not None
    limit = step / (1 + float(failure.bind(given)(given.clean[:1, None] + step, torch.tensor([0]))))
    epsilon = 1.2 * limit
    assert epsilon < 0.2  # so no pixel is clamped
    seen = Sampled(Uniform(Linf(epsilon)), ((failure, Counting(2000)),)).run(given)
    failed = seen[f"{failure}.failed"].double()
    truth = 1 - (limit / epsilon) ** 4
    assert 0.1 < truth < 0.9
    assert abs(float(failed.mean()) - truth) < 4 * (truth * (1 - truth) / failed.numel()) ** 0.5
    assert pixels.passes.forward == N * 2000
    assert not seen[f"{failure}.wrong"].any()
    found = RareFailures(Uniform(Linf(epsilon)), failure, first=4).run(shard(pixels, x, slice(4)))
    assert (found["low"] <= truth).sum() >= 3
    assert (found["high"] >= truth).sum() >= 3


@pytest.mark.sweep(2)
@pytest.mark.parametrize("noise", [Uniform(Linf(0.2)), TruncatedGaussian(Linf(0.2)), Linf(0.2), Gaussian(0.1)], ids=str)
def test_draws_depend_on_neither_batch_nor_company(noise: Threat, pixels: Encoder) -> None:
    x, few, many = images(), (Nearest(), Counting(40)), (Confused(3), Counting(100))
    undecided = (Nearest("cosine"), Sequential(300, gamma=0.2))
    alone = Sampled(noise, (few,)).run(shard(pixels, x))[f"{few[0]}.failed"]
    together = Sampled(noise, (few, many, undecided)).run(shard(pixels, x))
    assert torch.equal(together[f"{few[0]}.failed"][:, :40], alone)
    part = Sampled(noise, (few,)).run(shard(pixels, x, slice(5, 9)))[f"{few[0]}.failed"]
    assert torch.equal(part, alone[5:9])
    rule = undecided[1]
    own = Sampled(noise, (undecided,)).run(shard(pixels, x))[f"{undecided[0]}.failed"]
    for ours, theirs in zip(
        rule.count_until_stop(own), rule.count_until_stop(together[f"{undecided[0]}.failed"]), strict=True
    ):
        assert torch.equal(ours, theirs)
    assert (own == -1).any()  # some were decided before all draws were made
    assert alone.double().mean() > 0
    again = shard(pixels, x)
    other = Sampled(noise, (few,)).run(replace(again, rng=replace(again.rng, seed=4)))
    assert not torch.equal(other[f"{few[0]}.failed"], alone)


def test_passes_are_those_of_the_draws_that_were_needed(pixels: Encoder) -> None:
    given = shard(pixels, images())
    asked = Sampled(Uniform(), ((Nearest(), Counting(45)),))
    asked.run(given)
    assert pixels.passes == asked.passes * N
    assert asked.join(Sampled(Uniform(), ((Confused(), Counting(70)),))).passes.forward == 70


def test_a_representation_that_is_not_finite_is_an_error_that_names_the_image() -> None:
    class Breaks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1) / (x.flatten(1).amin(1, keepdim=True) > 0.1)

    x = images()
    x[7] = 0.15
    with pytest.raises(NotFinite, match="image 7"):
        Sampled(Uniform(Linf(0.09))).run(shard(Encoder(Breaks(), mean=0, std=1), x))


def test_threats_without_numbers_cannot_be_rare_events() -> None:
    with pytest.raises(BadValue, match="rare_failures"):
        RareFailures(Gaussian())


def test_attack_finds_what_draws_find(pixels: Encoder) -> None:
    given, ball = shard(pixels, images()), Linf(0.1)
    drawn = Sampled(Uniform(ball), ((Nearest(), Counting(200)),)).run(given)[f"{Nearest()}.failed"]
    broken = Broken(Apgd(50, restarts=8), ball).run(given)["value"] > 0
    assert 0 < int(broken.sum()) < N
    assert not ((drawn > 0).any(1) & ~broken).any()


def test_noises_are_told_the_images_they_meet(pixels: Encoder) -> None:
    """A noise that depends on the clean representation: it moves every image to where another one is."""
    x = images()

    class Towards(Noise):
        reps: Tensor | None = None

        def numbers(self, x: Tensor) -> int:
            return 1

        def push(self, x: Tensor, z: Tensor) -> Tensor:
            assert self.reps is not None
            target = self.reps.flip(1).view(-1, 1, 1, 2, 2).expand(-1, z.shape[1], -1, -1, -1)
            return torch.where(z[..., None, None] > 0, target, x[:, None].expand_as(target))

        def at(self, reps: Tensor, labels: Tensor | None) -> "Towards":
            bound = Towards()
            bound.reps = reps
            return bound

    bank = torch.cat([x, x.flatten(1).flip(1).view_as(x)])
    seen = Sampled(Towards(), ((Nearest(), Counting(64)),)).run(shard(pixels, bank))
    share = seen[f"{Nearest()}.failed"].double().mean(1)
    assert ((share - 0.5).abs() < 0.3).all()


def test_interval_of_draws_covers_the_mean_over_images() -> None:
    generator, covered, runs = torch.Generator().manual_seed(0), 0, 300
    beta = torch.distributions.Beta(torch.tensor(2.0), torch.tensor(0.2))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        truth = float(beta.mean)
        for _ in range(runs):
            p = beta.sample((60,)).double()
            shares = (torch.rand(60, 20, generator=generator) < p[:, None]).double().mean(1)
            score = statistics.share_of_draws(shares, 20)
            assert score.low is not None
            assert score.high is not None
            covered += score.low <= truth <= score.high
    assert covered / runs >= 0.93


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_interval_without_exception_leaves_room_for_images_not_met(value: float) -> None:
    same = statistics.share_of_draws(torch.full((50,), value), 1000)
    one = torch.full((50,), value)
    one[0] = abs(value - 0.001)
    nearly = statistics.share_of_draws(one, 1000)
    unmet = 1 - 0.025 ** (1 / 50)
    for score in (same, nearly):
        assert score.low is not None
        assert score.high is not None
        assert score.high - score.low >= 0.99 * unmet
    assert statistics.share_of_draws(torch.full((3,), torch.nan), 5).value is None


def test_betting_ends_of_votes_are_those_of_their_complement() -> None:
    failed, drawn = torch.tensor([3]), torch.tensor([40])
    low, high = Precise().interval(failed, drawn)
    other_low, other_high = Precise().interval(drawn - failed, drawn)
    torch.testing.assert_close(low, 1 - other_high)
    torch.testing.assert_close(high, 1 - other_low)
    assert betting.empirical_mean(betting.tally_votes(failed, drawn)) == pytest.approx(3 / 40)
