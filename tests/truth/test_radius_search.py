"""The search for certified radii: the same in any company, proved pair by pair, below what attacks reach."""

import copy

import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Encoder, Margin
from holdfast.numerics.bounds import affine
from holdfast.numerics.bounds.affine import Conv
from holdfast.numerics.bounds.backward import Region
from holdfast.numerics.bounds.optimise import Ascent
from holdfast.numerics.bounds.ranges import ranges_inside
from holdfast.numerics.bounds.slopes import Slopes
from holdfast.numerics.bounds.trace import trace
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.threats.linf import Linf

TOLERANCE, N, K = 1e-5, 3, 2
CERTIFIERS = {"crown": Crown(), "alpha_crown": AlphaCrown(inside=3, steps=6)}


def problem(seed: int = 0) -> tuple[Encoder, Margin, Tensor]:
    torch.manual_seed(seed)
    layers = [nn.Conv2d(1, 4, 4, 2, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, 1, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 6)]
    encoder, x = Encoder(nn.Sequential(*layers), mean=0.4, std=0.3), torch.rand(N, 1, 8, 8)
    with torch.no_grad():
        reps = encoder(x)
    return encoder, Cosine().between(reps, reps[torch.tensor([[j for j in range(N) if j != i] for i in range(N)])]), x


def radii(certifier: Propagation, encoder: Encoder, margin: Margin, x: Tensor) -> Tensor:
    return certify_radii(certifier, encoder, margin, x, Linf(), TOLERANCE)


@pytest.mark.parametrize("name", CERTIFIERS)
def test_radii_are_proved_pair_by_pair_and_below_what_attacks_reach(name: str) -> None:
    encoder, margin, x = problem()
    found = radii(CERTIFIERS[name], encoder, margin, x)
    assert (found > 10 * TOLERANCE).all()
    if name == "crown":  # alone, in float64, at the very radius
        for row in range(K):
            pair = Margin(margin.weights[:, [row]], margin.bias[:, [row]])
            assert (Crown()(encoder, pair, x, Linf(), found[:, row]).lower > 0).all()
            assert (Crown()(encoder, pair, x, Linf(), found[:, row] + 2 * TOLERANCE).lower <= 0).all()
    else:
        assert (found >= radii(Crown(), encoder, margin, x) - TOLERANCE).all()
    assert (descent(encoder, margin, x, found) > 0).all()


def descent(encoder: Encoder, margin: Margin, x: Tensor, radius: Tensor) -> Tensor:
    """Return the lowest margins that signs of gradients find within each pair's radius, in float64, [B, R]."""
    double, start = copy.deepcopy(encoder).double(), x.double()[:, None]
    reach = radius[..., None, None, None]
    low, high = (start - reach).clamp_min(0), (start + reach).clamp_max(1)
    at, lowest = start.expand(N, K, *x.shape[1:]).clone(), torch.full((N, K), torch.inf, dtype=torch.float64)
    for step in range(30):
        at.requires_grad_()
        reps = double(at.flatten(0, 1)).unflatten(0, (N, K))
        value = (margin.weights.double() * reps).sum(2) + margin.bias.double()
        lowest = torch.minimum(lowest, value.detach())
        slope = torch.autograd.grad(value.sum(), at)[0]
        at = (at.detach() - reach * (0.5 * 0.9**step) * slope.sign()).clamp(low, high)
    return lowest


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", CERTIFIERS)
def test_radii_are_the_same_in_any_batch_and_order(name: str) -> None:
    encoder, margin, x = problem(1)
    together = radii(CERTIFIERS[name], encoder, margin, x)
    order = torch.tensor([1, 0])
    turned = Margin(margin.weights[:, order].flip(0), margin.bias[:, order].flip(0))
    again = radii(CERTIFIERS[name], encoder, turned, x.flip(0))
    # rows share the radii where slopes are looked for, in another order: α-CROWN ends nearby
    within = 2 * TOLERANCE if name == "crown" else 1e-2 * float(together.max())
    torch.testing.assert_close(again.flip(0), together[:, order], rtol=0, atol=within)
    alone = radii(CERTIFIERS[name], encoder, margin.part(slice(1, 2)), x[1:2])
    torch.testing.assert_close(alone, together[1:2], rtol=0, atol=2 * TOLERANCE)


@pytest.mark.parametrize("piece", [4, 64])
@pytest.mark.parametrize(
    ("stride", "dilation", "groups", "size"),
    [((1, 1), (1, 1), 1, (3, 5)), ((2, 3), (1, 2), 2, (4, 4)), ((1, 2), (2, 1), 1, (1, 1))],
)
def test_windows_pass_a_convolution_as_single_forms_do(
    piece: int, stride: tuple, dilation: tuple, groups: int, size: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(affine, "PIECE", piece)
    weight = torch.randn(6, 4 // groups, 3, 2, dtype=torch.float64)
    operation = Conv(weight, None, (4, 30, 30), stride, (0, 0, 0, 0), dilation, groups)
    forms = torch.randn(7, 6, *size, dtype=torch.float64)
    torch.testing.assert_close(operation.of_windows(forms), operation.apply_transpose(forms))


def test_slopes_are_found_again_for_the_same_values() -> None:
    """Without a step, ranges from slopes that are remembered are those that the ascent ended with."""
    encoder, _, x = problem(2)
    network, slopes = trace(encoder, tuple(x.shape[1:])).double, Slopes()
    region = Region.around(Linf(), x[:1], torch.tensor([0.05]).double())
    usual = ranges_inside(network, region)
    ascended = ranges_inside(network, region, None, Ascent(10), slopes=slopes)
    again = ranges_inside(network, region, None, Ascent(0), slopes=slopes)
    inside = max(ascended)
    narrower = (usual[inside][1] - usual[inside][0]) - (ascended[inside][1] - ascended[inside][0])
    assert float(narrower.max()) > 1e-3
    for one, other in zip(ascended[inside], again[inside], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
