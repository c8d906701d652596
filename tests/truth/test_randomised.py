"""Randomised and purifying encoders: means over draws that are known, attacks whose optimum is known."""

import copy
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.auditing.artifacts.grad_cam import attention
from holdfast.core import Encoder, Passes, Rng
from holdfast.core.randomness import GROUPS, MeanOfDraws, draw_seeds, naively, searching
from holdfast.numerics.bounds.trace import trace
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.naively_attacked import NaivelyAttacked
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Failed, NotCertified, UnknownName, Unsupported
from holdfast.sources.encoders.shared.copies import copy_encoder, trainable

SIDE = 4
PIXELS = SIDE * SIDE
IDS = tuple("abcdef")


class Module(nn.Module):
    """A network of one function."""

    def __init__(self, call) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x)


def encoder(call, **options) -> Encoder:
    module = call if isinstance(call, nn.Module) else Module(call)
    return Encoder(module, mean=0, std=1, **options)


def images(count: int = 6) -> Tensor:
    return torch.rand(count, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(3))


W = torch.randn(3, PIXELS, generator=torch.Generator().manual_seed(4))


def noisy_weights(x: Tensor) -> Tensor:
    return x.flatten(1) @ (W + 0.5 * torch.randn(3, PIXELS)).T


def noises(seeds: list[int]) -> Tensor:
    """The noises of `noisy_weights`, drawn outside of any encoder."""
    drawn = []
    for seed in seeds:
        drawn.append(torch.randn(3, PIXELS, generator=torch.Generator().manual_seed(seed)))
    return torch.stack(drawn)


def own_seeds(draws: int, seed: int = 0) -> list[int]:
    return [Rng(seed, ("draws of the encoder",)).number(str(draw)) for draw in range(draws)]


# --- the mean over draws ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 5])
def test_a_linear_encoder_with_noisy_weights_is_its_mean_and_so_is_its_gradient(seed: int) -> None:
    f, x = encoder(noisy_weights, draws=8).prepare(seed=seed), images().requires_grad_()
    mean = W + 0.5 * noises(own_seeds(8, seed)).mean(0)
    reps = f(x)
    torch.testing.assert_close(reps, x.flatten(1) @ mean.T)
    direction = torch.tensor([1.0, -2.0, 0.5])
    (gradient,) = torch.autograd.grad((reps * direction).sum(), x)
    torch.testing.assert_close(gradient, (direction @ mean).view(1, 1, SIDE, SIDE).expand_as(x))


def test_the_gradient_in_a_search_is_that_of_the_expectation() -> None:
    f, x = encoder(noisy_weights, draws=400), images(1).requires_grad_()
    with searching(Rng(0)):
        (gradient,) = torch.autograd.grad(f(x)[:, 0].sum(), x)
    error = gradient.flatten() - W[0]
    assert float(error.abs().max()) < 4 * 0.5 / 400**0.5
    assert float(error.norm()) == pytest.approx(0.5 * (PIXELS / 400) ** 0.5, rel=0.5)


def test_every_draw_is_a_pass() -> None:
    f, x = encoder(noisy_weights, draws=5), images().requires_grad_()
    (f(x).sum()).backward()
    assert f.passes == Passes(forward=30, backward=30)
    f.each_draw(x, 7)
    assert f.passes == Passes(forward=30 + 42, backward=30)
    with searching(Rng(0)), naively():
        f(x)
    assert f.passes == Passes(forward=72 + 6, backward=30)


def test_two_passes_agree_and_no_image_depends_on_others_or_on_the_order() -> None:
    def call(x: Tensor) -> Tensor:  # elementwise, so that equality is exact
        shift = random.randint(0, 3)
        return (x.roll(shift, 3) + torch.randn_like(x) * float(np.random.rand())).flatten(1)

    f, x = encoder(call, draws=3), images()
    reps = f(x)
    assert torch.equal(reps, f(x))
    assert torch.equal(reps[2:3], f(x[2:3]))
    assert torch.equal(torch.cat([f(part) for part in x.split(4)]), reps)
    assert torch.equal(f(x.flip(0)), reps.flip(0))
    f.prepare(seed=1)
    assert not torch.allclose(reps, f(x))


def test_generators_stay_where_they_were() -> None:
    f, x = (
        encoder(lambda x: (x + torch.rand(()) + random.random() + float(np.random.rand())).flatten(1), draws=2),
        images(),
    )
    before = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    f(x)
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1:] == (random.getstate(), np.random.get_state()[1].tolist())


NETWORKS = {
    "added noise": lambda x: x + torch.randn_like(x),
    "in place": lambda x: x + torch.empty_like(x).normal_(),
    "dropout": lambda x: F.dropout(x, 0.4, training=True),
    "dropped channels": lambda x: F.dropout2d(x, 0.5, training=True),
    "a coin": lambda x: x * 2 if torch.rand(1).item() < 0.5 else x - 1,
    "crop and pad": lambda x: F.pad(x[:, :, 1:, random.randint(0, 1) :], (1, 1, 1, 0))[:, :, :SIDE, :SIDE],
    "resize": lambda x: F.interpolate(
        F.interpolate(x, size=random.randint(3, 9), mode="bilinear"), size=SIDE, mode="bilinear"
    ),
    "permutation": lambda x: x[:, :, torch.randperm(SIDE)],
    "positions": lambda x: x.view(-1, 1, SIDE, SIDE)[:, :, torch.randint(0, SIDE, (2,))].repeat(1, 1, 2, 1),
    "drop path": lambda x: x + x.sin() * torch.empty(len(x), 1, 1, 1).bernoulli_(0.5),
    # what torch.vmap cannot run
    "of each pixel": lambda x: x * torch.bernoulli(x.detach().clamp(0, 1)),
    "decides by a value": lambda x: x * (2 if float(x.detach().mean()) > 0.5 else 1) + torch.randn_like(x),
}
SLOW = ("of each pixel", "decides by a value")


@pytest.mark.parametrize("name", NETWORKS)
def test_the_batch_at_once_draws_what_image_by_image_draws(name: str) -> None:
    call = lambda x: NETWORKS[name](x).flatten(1)  # noqa: E731
    x, seeds = images().requires_grad_(), [1, 2, 3]
    at_once, one_by_one = MeanOfDraws(call), MeanOfDraws(call)
    one_by_one.one_by_one = "for comparison"
    fast, slow = at_once(x, seeds), one_by_one(x, seeds)
    torch.testing.assert_close(fast, slow)
    gradients = [torch.autograd.grad(reps.square().sum(), x)[0] for reps in (fast, slow)]
    torch.testing.assert_close(*gradients)
    assert bool(at_once.one_by_one) == (name in SLOW)
    by_hand = []
    for image in x.detach().split(1):
        torch.manual_seed(2)
        random.seed(2)
        np.random.seed(2)
        by_hand.append(call(image))
    torch.testing.assert_close(at_once(x, [2]), torch.cat(by_hand))


# --- attacks ------------------------------------------------------------------------------------


class Recording(nn.Module):
    """Keeps a random number of each draw."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[float] = []

    def forward(self, x: Tensor) -> Tensor:
        number = torch.rand(())
        self.drawn.append(float(number))
        return x.flatten(1) * (0.5 + number)


@pytest.mark.parametrize("attack", [Pgd(4), Apgd(4), Square(4), Ensemble((Pgd(2), Square(3)))])
def test_an_attack_never_sees_the_draws_that_judge_it_and_draws_anew_in_each_pass(attack) -> None:
    network = Recording()
    f, x = encoder(network, draws=3), images()
    clean = f(x)
    own, network.drawn = network.drawn, []
    goal = Untargeted().pursue(f, clean)
    searched = attack(goal, x, Linf(0.1), Rng(0, ids=IDS))
    drawn, network.drawn = network.drawn, []
    assert not set(own) & set(drawn)
    if len(attack.members) == 1:
        assert len(set(drawn)) == len(drawn) == 3 * attack.passes.forward
    else:  # members draw what they draw alone
        pgd, square = (3 * member.passes.forward for member in attack.members)
        assert len(drawn) == pgd + square
        assert len(set(drawn)) == max(pgd, square)
    judged = searched.reevaluate(goal, f)
    assert network.drawn == own
    assert torch.equal(judged.reps[attack.steps], f(judged.images[attack.steps]))
    assert not torch.equal(judged.reps[attack.steps], searched.reps[attack.steps])


def test_an_attack_does_not_depend_on_its_batch() -> None:
    f, x = encoder(lambda x: (x * torch.rand(())).flatten(1), draws=3), images()
    goal = lambda part: Untargeted().pursue(f, f(x)[part])  # noqa: E731
    whole = Pgd(5)(goal(slice(6)), x, Linf(0.1), Rng(0, ids=IDS))
    part = slice(2, 5)
    own = Pgd(5)(goal(part), x[part], Linf(0.1), Rng(0, ids=IDS[part]))
    assert torch.equal(own.images[5], whole.images[5][part])
    other = Pgd(5)(goal(slice(6)), x, Linf(0.1), Rng(1, ids=IDS))
    assert not torch.equal(other.images[5], whole.images[5])


SIGNS = torch.where(torch.arange(PIXELS) % 2 == 0, 1.0, -1.0)
GAIN = 0.3


def flipped(x: Tensor) -> Tensor:
    """Random signs of all pixels at once, which hide what matters: GAIN times the sum of pixels with fixed signs."""
    sign = torch.where(torch.rand(()) < 0.5, -1.0, 1.0)
    return torch.cat([sign * x.flatten(1), GAIN * (x.flatten(1) @ SIGNS)[:, None]], 1)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("attack", [Pgd(20, keep="last"), Apgd(20)])
def test_random_signs_hide_the_worst_case_from_a_naive_attack_and_not_from_an_adaptive_one(attack) -> None:
    epsilon = 0.1
    f, x = encoder(flipped, draws=64), images() * 0.6 + 0.2
    clean = f(x)
    goal, rng = Untargeted().pursue(f, clean), Rng(0, ids=IDS)
    adaptive = attack(goal, x, Linf(epsilon), rng).reevaluate(goal, f)
    with naively():
        naive = attack(goal, x, Linf(epsilon), rng).reevaluate(goal, f)
    mean_sign = float(clean[0, 0] / x[0, 0, 0, 0])
    optimum = epsilon * (PIXELS * mean_sign**2 + (GAIN * PIXELS) ** 2) ** 0.5
    drift = [(t.reps[attack.steps] - clean).norm(dim=1) for t in (adaptive, naive)]
    torch.testing.assert_close(drift[0], torch.full((6,), optimum), rtol=0.03, atol=0)
    assert float(drift[0].max()) <= optimum * (1 + 1e-5)
    assert float(drift[1].median()) < 0.35 * optimum


# --- steps without a gradient -------------------------------------------------------------------


class Purifying(nn.Module):
    """Rounds pixels to eighths; then a sum with signs."""

    def __init__(self) -> None:
        super().__init__()
        self.purify = Module(lambda x: (x * 8).round() / 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.purify(x).flatten(1) @ torch.stack([SIGNS, torch.ones(PIXELS)], 1)


def test_rounding_has_no_gradient_and_straight_through_reaches_the_worst_case() -> None:
    x, ball = images(), Linf(0.1)
    plain, through = encoder(Purifying()), encoder(Purifying(), straight_through=["purify"])
    assert torch.equal(plain(x), through(x))
    goals = [lambda y, f=f: (f(y)[:, 0], f(y)) for f in (plain, through)]
    stuck, moved = (Apgd(20)(goal, x, ball, Rng(0, ids=IDS)).reps[20][:, 0] for goal in goals)
    worst = (((x.flatten(1) + 0.1 * SIGNS).clamp(0, 1) * 8).round() / 8) @ SIGNS
    torch.testing.assert_close(moved, worst)
    assert float((worst - stuck).min()) > 0.2
    with naively():
        naive = Apgd(20)(goals[1], x, ball, Rng(0, ids=IDS)).reps[20][:, 0]
    assert torch.equal(naive, stuck)


@pytest.mark.parametrize("draws", [None, 3])
def test_straight_through_is_the_identity_on_the_way_back_within_draws_too(draws: int | None) -> None:
    f, x = encoder(Purifying(), draws=draws, straight_through=["purify"]), images().requires_grad_()
    (gradient,) = torch.autograd.grad(f(x)[:, 0].sum(), x)
    assert torch.equal(gradient, SIGNS.view(1, 1, SIDE, SIDE).expand_as(x))
    assert f.mean_of_draws.one_by_one == ""


def test_a_step_may_leave_torch_and_draw() -> None:
    def purify(x: Tensor) -> Tensor:
        return torch.as_tensor((x.numpy() * 8).round() / 8) + 0.01 * torch.randn_like(x)

    network = Purifying()
    network.purify = Module(purify)
    f, x = encoder(network, draws=2, straight_through=["purify"]), images().requires_grad_()
    (gradient,) = torch.autograd.grad(f(x)[:, 0].sum(), x)
    assert torch.equal(gradient, SIGNS.view(1, 1, SIDE, SIDE).expand_as(x))
    assert torch.equal(f(x), f(x))
    assert f.mean_of_draws.one_by_one


# --- copies, and what is predicted --------------------------------------------------------------


def test_copies_keep_draws_and_steps() -> None:
    f, x = encoder(Purifying(), draws=2, straight_through=["purify"]).prepare(seed=4), images()
    assert f.origin["draws"] == 2
    for twin in (copy_encoder(f), copy.deepcopy(f)):
        assert torch.equal(twin(x), f(x))
        assert (twin.draws, twin.straight_through, twin.fingerprint) == (2, ("purify",), f.fingerprint)
        before = f.passes
        (gradient,) = torch.autograd.grad(twin(y := images().requires_grad_())[:, 0].sum(), y)
        assert torch.equal(gradient[0].flatten(), SIGNS)
        assert f.passes == before
    others = [encoder(Purifying()), encoder(Purifying(), draws=3), encoder(Purifying(), straight_through=["purify"])]
    assert len({one.fingerprint for one in (f, *others)}) == 4


def test_passes_are_foretold() -> None:
    observation = Attacked(Pgd(5), Linf(0.1), readouts=(2, 5))
    search, reads = observation.passes, Passes(forward=2)
    assert observation.passes_at("float32") == search
    judged = reads + reads * GROUPS  # by its own draws, and by others
    assert observation.passes_at("float32", 4) == (search + judged) * 4
    naive = NaivelyAttacked(Pgd(5), Linf(0.1), readouts=(2, 5))
    assert naive.passes_at("float32") == search
    assert naive.passes_at("float32", 4) == search + judged * 4
    assert BreakingRadii().passes_at("float32", 4) == BreakingRadii().passes * 4


def test_searches_each_pass_of_which_decides_see_the_own_draws() -> None:
    f = encoder(noisy_weights, draws=2)
    with searching(Rng(0)):
        assert f.rereads
        with f.exactly():
            assert not f.rereads
            torch.testing.assert_close(f(images()), images().flatten(1) @ (W + 0.5 * noises(own_seeds(2)).mean(0)).T)
    assert draw_seeds(2, 0) == own_seeds(2)


# --- what cannot be done ------------------------------------------------------------------------


def test_what_reads_one_network_refuses_a_mean_over_draws() -> None:
    f, x = encoder(noisy_weights, draws=2), images()
    with pytest.raises(NotCertified, match="2 draws"):
        trace(f, (1, SIDE, SIDE))
    with pytest.raises(Unsupported, match="attention"):
        attention(f, x, f(x))
    with pytest.raises(Unsupported, match="2 draws"):
        trainable(f)
    with pytest.raises(Unsupported, match="compiled"):
        f.prepare(compiled=True)


@pytest.mark.parametrize("draws", [0, -1, 2.5, True, "8", float("nan")])
def test_draws_are_a_whole_number_above_0(draws) -> None:
    with pytest.raises(BadValue, match=r"Encoder\.draws"):
        encoder(noisy_weights, draws=draws)


def test_steps_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UnknownName, match=r"'purify'\?"):
        encoder(Purifying(), straight_through=["purifi"])
    with pytest.raises(BadValue, match=r"Encoder\.straight_through"):
        encoder(Purifying(), straight_through=[3])
    network = Purifying()
    network.purify = Module(lambda x: x[:, :, :2])
    with pytest.raises(Unsupported, match=r"\[6, 1, 2, 4\]"):
        encoder(network, straight_through=["purify"])(images())
    network.purify = Module(lambda x: None)
    with pytest.raises(Unsupported, match="NoneType"):
        encoder(network, straight_through=["purify"])(images())
    two = nn.Module()
    two.step = Module(lambda x, y: x)
    two.forward = lambda x: two.step(x, x)
    with pytest.raises(Unsupported, match="2 arguments"):
        encoder(two, straight_through=["step"])(images())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.flatten(1)[:, : random.randint(1, 9)], "draws"),
        (lambda x: [x], "list"),
        (lambda x: x, r"torch\.float32"),
    ],
)
def test_representations_that_are_none(call, message: str) -> None:
    with pytest.raises(Failed, match=message):
        encoder(call, draws=8)(images())


def test_an_error_of_the_network_is_its_own() -> None:
    def fails(x: Tensor) -> Tensor:
        raise ValueError("of the network")

    f = encoder(fails, draws=2)
    with pytest.raises(ValueError, match="of the network"):
        f(images())
    assert f.mean_of_draws.one_by_one == ""
