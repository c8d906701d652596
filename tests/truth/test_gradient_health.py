"""Gradients are held against the encoder: false ones, and true ones that see next to nothing, are found out."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad, unfold

from holdfast.core import Encoder, Images, Rng, Verdict
from holdfast.parts.checks.gradient_health import GradientHealth
from holdfast.parts.checks.shared.gradients import compare_with_gradient, measure_unseen, take_gradient
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.sources.data.digits import Digits
from holdfast.sources.encoders import open_encoder

COUNT = 32
DIGITS = torch.stack([Digits().load(number) for number in range(COUNT)])
Change = Callable[[Tensor], Tensor]


class Told(torch.autograd.Function):
    """The same values, with a gradient that somebody made up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, values: Tensor, tell: Change) -> Tensor:
        ctx.tell = tell
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ctx.tell(gradient), None, None


def told(tell: Change, change: Change = lambda x: x) -> Change:
    return lambda x: Told.apply(x, change(x.detach()), tell)  # pyright: ignore[reportReturnType]


class Between(nn.Module):
    """Something before the digits' encoder, and something after it."""

    def __init__(self, name: str, before: Change, after: Change) -> None:
        super().__init__()
        encoder = open_encoder(name)
        self.network, self.before, self.after = nn.Sequential(encoder.normalisation, encoder.module), before, after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.network(self.before(x)))


def digits(before: Change = lambda x: x, after: Change = lambda f: f, name: str = "zoo:digits-simclr") -> Encoder:
    return Encoder(Between(name, before, after), mean=0, std=1)


def judged(encoder: Encoder, x: Images = DIGITS, **options: Any) -> Verdict:
    check = GradientHealth(**{"balls": (Linf(0.1),), **options})
    radii = {"radius": torch.tensor([0.1, 0.12, torch.inf, 0.0])}
    subject: Any = SimpleNamespace(
        encoder=encoder, seed=0, population=len(x), ids=[str(i) for i in range(len(x))],
        batch=lambda start, stop: x[start:stop], read=lambda _: radii,
    )  # fmt: skip
    return check.judge(subject)


def middle(x: Tensor) -> Tensor:
    return unfold(pad(x, (1, 1, 1, 1), mode="reflect"), 3).unflatten(1, (1, 9)).median(2)[0].view_as(x)


def grid(x: Tensor) -> Tensor:
    return (x * 15).round() / 15


def whole(f: Tensor) -> Tensor:
    return (8 * f / f.std()).round()


HIDING: dict[str, Encoder] = {
    # true gradients that see next to nothing
    "sigmoid 50": digits(lambda x: torch.sigmoid(50 * (x - 0.5))),
    "sigmoid 200": digits(lambda x: torch.sigmoid(200 * (x - 0.5))),
    "contrast 3": digits(lambda x: (3 * (x - 0.5) + 0.5).clamp(0, 1)),
    "contrast 8": digits(lambda x: (8 * (x - 0.5) + 0.5).clamp(0, 1)),
    "contrast 20 elsewhere": digits(lambda x: (20 * (x - 0.3) + 0.5).clamp(0, 1)),
    "stairs": digits(lambda x: (torch.floor(6 * x) + torch.sigmoid(30 * ((6 * x) % 1 - 0.5))) / 6),
    "median": digits(middle),
    "half detached": digits(lambda x: torch.cat([x[:, :, :4].detach(), x[:, :, 4:]], 2)),
    "shattered": digits(lambda x: x + 1e-3 * torch.sin(1e4 * x)),
    "tanh of 1,000": digits(after=lambda f: torch.tanh(1000 * f)),
    # false ones
    "negated": digits(told(torch.neg)),
    "random": digits(told(torch.randn_like)),
    "noisy": digits(told(lambda g: g + 4 * g.std() * torch.randn_like(g))),
    "blurred a little": digits(told(lambda g: avg_pool2d(g, 3, 1, 1))),
    "sparse": digits(told(lambda g: g * (torch.arange(g.numel()).view_as(g) % 8 == 0))),
    "rolled": digits(told(lambda g: g.roll(2, -1))),
    "blurred": digits(told(lambda g: avg_pool2d(g, 5, 1, 2))),
    "constant": digits(told(torch.ones_like)),
    "rounded, faint": digits(told(lambda g: 1e-6 * g, lambda x: (7 * x).round() / 7)),
    "rounded": digits(lambda x: (7 * x).round() / 7),
    "rounded output": digits(after=whole),
    "rounded output, faint": digits(after=lambda f: told(lambda g: 1e-9 * g, whole)(f)),
    "other where gradients are": digits(lambda x: x if torch.is_grad_enabled() else x.flip(3)),
    "softmax": digits(after=lambda f: torch.softmax(200 * f / f.std(), 1)),
    "not differentiable": digits(lambda x: x.detach()),
    "NaN": digits(told(lambda g: g * torch.nan)),
}

HONEST: dict[str, Encoder] = {
    "trained": digits(),
    "supervised": digits(name="zoo:digits-supervised"),
    "hardened": digits(name="zoo:digits-simclr-adv"),
    "random weights": digits(name="zoo:digits_cnn"),
    "scaled up": digits(after=lambda f: 1e6 * f),
    "scaled down": digits(after=lambda f: 1e-12 * f),
    "half precision": digits(after=lambda f: f.half()),
    "bfloat16": digits(after=lambda f: f.bfloat16()),
    "eight bits": digits(told(lambda g: g, lambda x: (255 * x).round() / 255)),
    "eight bits behind": digits(after=told(lambda g: g, lambda f: (f * 220).round() / 220)),
    "blurred": digits(lambda x: avg_pool2d(x, 3, 1, 1)),
    "gentle sigmoid": digits(lambda x: torch.sigmoid(4 * (x - 0.5))),
    "tiny gradient": digits(lambda x: (x * 1e-20) * 1e20),
    "squashed": digits(after=torch.tanh),
}  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", HIDING)
def test_what_hides_fails(name: str) -> None:
    torch.manual_seed(0)
    verdict = judged(HIDING[name])
    assert verdict.status == "fail", verdict.finding


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", HONEST)
def test_what_is_honest_does_not(name: str) -> None:
    for ball in (Linf(0.001), Linf(0.004), Linf(0.01), Linf(0.03), Linf(0.1), L2(0.03), L2(1.0)):
        verdict = judged(HONEST[name], balls=(ball,))
        assert verdict.status == "pass", verdict.finding


def test_the_numbers_are_those_of_the_formulas() -> None:
    """Of a linear encoder a promise is kept whole; half of what pixels change is left out where half are detached."""
    weights = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))

    def linear(x: Tensor) -> Tensor:
        return x.flatten(1) @ weights.T

    x = torch.rand(400, 1, 8, 8, generator=torch.Generator().manual_seed(1)) * 0.6 + 0.2
    rng, ball = Rng(0, ids=tuple(map(str, range(400)))), Linf(0.1)

    def of(change: Change) -> tuple[Tensor, Tensor]:
        encoder = Encoder(Module(lambda x: linear(change(x))), mean=0, std=1)
        gradient = take_gradient(encoder, ball.sample(x, rng), rng)
        assert gradient is not None
        step = ball.step(x, gradient.at, gradient.values, 0.05)
        missed = compare_with_gradient(encoder, gradient.at, step, gradient.direction)
        return missed, measure_unseen(encoder, x, ball, rng)

    promise, outside = of(lambda x: x)
    assert float(promise.max()) < 1e-4
    assert 0 < float(outside.mean()) < 0.02
    promise, outside = of(lambda x: torch.cat([x[:, :, :4].detach(), x[:, :, 4:]], 2))
    assert float(promise.max()) < 1e-4
    assert float(outside.mean()) == pytest.approx(0.5, abs=0.05)
    # a gradient of twice its length, of half its length, of the other sign
    for factor, missed in ((2.0, 0.5), (0.5, 0.5), (-1.0, 2.0)):
        promise, _ = of(told(lambda g, factor=factor: factor * g))
        assert float(promise.median()) == pytest.approx(missed, abs=1e-3)


class Module(nn.Module):
    """A function as a module."""

    def __init__(self, function: Change) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def test_images_are_looked_at_until_it_is_clear() -> None:
    assert judged(HONEST["trained"]).details["images"] == 8
    assert judged(HIDING["negated"]).details["images"] == 8
    assert judged(HIDING["sigmoid 50"]).details["images"] > 8
    assert judged(HIDING["sigmoid 50"], examined=3).details["images"] == 3


def test_the_ball_has_the_size_of_what_is_searched() -> None:
    """What saturates is told where images cross its edge, and smallest changes count by the size that was found."""
    contrast = HIDING["contrast 3"]
    assert judged(contrast, balls=(Linf(0.002),)).status != "fail"
    radii = BreakingRadii(Linf(0.002))
    assert judged(contrast, balls=(), radii=(radii,)).status == "fail"  # half of those found are .1 or less


def test_a_step_that_is_named_is_no_lie() -> None:
    class Eighths(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x * 8).round() / 8

    def rounding(**named: Any) -> Encoder:
        return Encoder(nn.Sequential(Eighths(), digits().module), mean=0, std=1, **named)

    assert judged(rounding()).status == "fail"
    assert judged(rounding(straight_through=["0"])).status == "warn"


def test_batches_and_company_change_nothing() -> None:
    encoder, ball, rng = HONEST["trained"], Linf(0.1), Rng(0, ids=tuple(map(str, range(COUNT))))
    together = measure_unseen(encoder, DIGITS, ball, rng)
    alone = measure_unseen(encoder, DIGITS[5:6], ball, rng.at(("5",)))
    assert float((together[5] - alone[0]).abs()) < 1e-4
