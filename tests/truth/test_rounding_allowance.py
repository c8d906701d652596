"""What is set aside for rounding: the magnitude of the margin's terms in the ball, however deep the network is."""

import pytest
import torch
from torch import nn

from holdfast.core import Ball, Certifier, Encoder, Margin
from holdfast.numerics.bounds.backward import boxes
from holdfast.numerics.bounds.rounding import SLACK, rounding
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.beta_crown import BetaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.crown_ibp import CrownIbp
from holdfast.parts.certifiers.interval import Interval
from holdfast.parts.certifiers.shared.certifier import Propagation, prepare
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf

CERTIFIERS = [Interval(), CrownIbp(), Crown(), AlphaCrown(inside=1, steps=1), BetaCrown(inside=1, steps=1, splits=1)]


def deep_encoder(depth: int, width: int = 24) -> Encoder:
    """A network of many layers that keeps the size of what it is given; interval arithmetic grows with each layer."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Flatten()]
    for _ in range(depth):
        linear = nn.Linear(width, width)
        nn.init.normal_(linear.weight, std=(2 / width) ** 0.5)
        layers += [linear, nn.ReLU()]
    return Encoder(nn.Sequential(*layers, nn.Linear(width, 8)).eval(), mean=0, std=1)


def positive_margin(encoder: Encoder, x: torch.Tensor) -> Margin:
    """The direction of each image's own representation."""
    with torch.no_grad():
        return Margin(encoder(x)[:, None], torch.zeros(len(x), 1))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("certifier", CERTIFIERS, ids=lambda certifier: type(certifier).__name__)
def test_depth_does_not_take_the_proof_away(certifier: Propagation) -> None:
    """At a radius that hardly moves anything every certifier proves a margin, with hardly anything set aside."""
    encoder, x = deep_encoder(depth=16), torch.rand(2, 1, 4, 6, generator=torch.Generator().manual_seed(1))
    margin = positive_margin(encoder, x)
    clean = margin(encoder(x).detach())
    bound = certifier(encoder, margin, x, Linf(1e-12))
    assert bool((bound.lower > 0.99 * clean).all())
    assert bool((bound.slack < 1e-6 * clean).all())
    assert not bool(bound.vacuous.any())


def test_a_deep_network_has_a_radius() -> None:
    """The search finds one, too, below what an attack on the margin's sign needs."""
    encoder, x = deep_encoder(depth=16), torch.rand(1, 1, 4, 6, generator=torch.Generator().manual_seed(1))
    radius = certify_radii(CrownIbp(), encoder, positive_margin(encoder, x), x, Linf(0.1), tolerance=1e-12)
    assert 1e-10 < radius.item() < 0.5


def test_terms_that_cancel_count() -> None:
    """Two large terms that cancel leave a small number with the rounding of large ones."""
    last = nn.Linear(2, 1, bias=False)
    last.weight.data = torch.tensor([[1e6, -1e6]])
    encoder = Encoder(nn.Sequential(nn.Flatten(), nn.ReLU(), last).eval(), mean=0, std=1)
    x, margin = torch.full((1, 1, 1, 2), 0.5), Margin(torch.ones(1, 1, 1), torch.zeros(1, 1))
    bound = Crown()(encoder, margin, x, Linf(1e-12))
    assert bound.slack.item() == pytest.approx(SLACK * 1e6)
    assert bound.lower.item() < 0


@pytest.mark.parametrize("certifier", CERTIFIERS, ids=lambda certifier: type(certifier).__name__)
def test_images_outside_the_ball_do_not_count(certifier: Certifier) -> None:
    """A weight that no image of the ball reaches sets nothing aside."""
    first = nn.Linear(1, 2)
    first.weight.data, first.bias.data = torch.tensor([[1.0], [1e9]]), torch.tensor([0.0, -0.9e9])
    last = nn.Linear(2, 1)
    last.weight.data, last.bias.data = torch.tensor([[1.0, 1.0]]), torch.tensor([0.25])
    encoder = Encoder(nn.Sequential(nn.Flatten(), first, nn.ReLU(), last).eval(), mean=0, std=1)
    x, margin = torch.full((1, 1, 1, 1), 0.5), Margin(torch.full((1, 1, 1), 2.0), torch.tensor([[-0.125]]))
    bound = certifier(encoder, margin, x, Linf(0.25))
    assert bound.slack.item() == pytest.approx(SLACK * (2 * (0.75 + 0.25) + 0.125))


def test_a_network_that_is_affine_counts_every_pixel() -> None:
    """Without activations the terms go back to the image."""
    linear = nn.Linear(4, 3)
    encoder = Encoder(nn.Sequential(nn.Flatten(), linear).eval(), mean=0.5, std=0.25)
    x, margin = torch.full((1, 1, 2, 2), 0.5), Margin(torch.randn(1, 2, 3), torch.randn(1, 2))
    network, region, margin = prepare(encoder, margin, x, Linf(0.25))
    network = network.double
    normalised = 0.75 * 4 + 0.5 * 4  # a pixel of at most 3/4, divided by 1/4, and the mean that is subtracted from it
    terms = linear.weight.abs().double().sum(1) * normalised + linear.bias.abs().double()
    expected = SLACK * (margin.weights[0].abs() @ terms + margin.bias[0].abs())
    torch.testing.assert_close(rounding(network, margin, region, boxes(network, region))[0], expected)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("certifier", CERTIFIERS, ids=lambda certifier: type(certifier).__name__)
def test_an_image_does_not_depend_on_its_company(certifier: Certifier) -> None:
    """Other images have other open signs; what is found out about theirs changes nothing."""
    encoder, x = deep_encoder(depth=4), torch.rand(6, 1, 4, 6, generator=torch.Generator().manual_seed(2))
    margin, radii = positive_margin(encoder, x), torch.tensor([0.3, 0.001, 0.1, 0.03, 0.003, 0.01]).double()
    together = certifier(encoder, margin, x, Linf(0.1), radii)
    for i in range(len(x)):
        alone = certifier(encoder, margin.part(slice(i, i + 1)), x[i : i + 1], Linf(0.1), radii[i : i + 1])
        torch.testing.assert_close(alone.lower, together.lower[i : i + 1], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(alone.slack, together.slack[i : i + 1], rtol=1e-9, atol=0)


class Normalised(nn.Module):
    """Pixels as a vector of length one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(x.flatten(1), dim=1)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("bias", [-5e-6, -1e-6, 0.0, 5e-6])
@pytest.mark.parametrize("certifier", CERTIFIERS, ids=lambda certifier: type(certifier).__name__)
def test_a_small_bias_counts_where_the_encoder_normalises(certifier: Propagation, bias: float) -> None:
    """A bias that is small beside the weights is not small beside a margin that is: its sign decides this one's."""
    encoder, x = Encoder(Normalised(), mean=0, std=1), torch.tensor([[[[2e-6, 0.9]]]])
    margin = Margin(torch.tensor([[[1.0, 0.0]]]), torch.tensor([[bias]]))
    truth = float(margin.to(torch.float64)(nn.functional.normalize(x.double().flatten(1))))
    assert float(certifier(encoder, margin, x, Linf(1e-12)).lower) <= truth
    radius = float(certify_radii(certifier, encoder, margin, x, Linf(0.1), tolerance=1e-10))
    assert radius <= max(0.0, 0.9 * truth) + 1e-9  # the first pixel may fall until the margin is 0
    assert radius > 0.9 * min(truth, 2e-6 / 0.9) - 1e-9 if truth > 0 and bias <= 0 else True


@pytest.mark.parametrize("ball", [L2(0.1), Linf(0.1)], ids=["l2", "linf"])
@pytest.mark.parametrize("certifier", [Interval(), Crown()], ids=lambda certifier: type(certifier).__name__)
def test_a_bound_of_a_network_without_an_activation_says_something(certifier: Propagation, ball: Ball) -> None:
    encoder, x = Encoder(nn.Flatten(), mean=0, std=1), torch.full((1, 1, 2, 2), 0.5)
    bound = certifier(encoder, Margin(torch.ones(1, 1, 4), torch.zeros(1, 1)), x, ball)
    assert float(bound.lower) == pytest.approx(2.0 - (0.2 if isinstance(ball, L2) else 0.4), abs=1e-6)
    assert not bool(bound.vacuous)
