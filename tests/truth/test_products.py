"""Products of two values: their relaxation against points of the box, and certificates of networks that hold them."""

import copy
from collections.abc import Callable

import pytest
import torch
from tiny_transformers import SHAPE, TRANSFORMERS, Attends, Tokens, by_matmul
from torch import Tensor, nn

from holdfast.core import Certifier, Encoder, Margin
from holdfast.numerics.bounds import products
from holdfast.numerics.bounds.affine import Affine, Matrices
from holdfast.numerics.bounds.axes import Centre, Differences, Total
from holdfast.numerics.bounds.products import Bilinear
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.crown_ibp import CrownIbp
from holdfast.parts.certifiers.interval import Interval
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf

EQUATIONS = {
    "Nab,Nab->Nab": ((2, 3), (2, 3)), "Nabc,Na->Nabc": ((2, 3, 2), (2,)), "Nab,Nbc->Nac": ((2, 3), (3, 2)),
    "Nhab,Nhcb->Nhac": ((2, 2, 3), (2, 2, 3)), "Nabc,Nbc->Na": ((2, 3, 2), (3, 2)), "N,N->N": ((), ()),
}  # fmt: skip
IMAGES, ROWS, POINTS = 2, 3, 30_000


def draw(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def boxes(equation: str) -> list[tuple[Tensor, Tensor]]:
    """A box for each of the two values, some of its sides of length 0."""
    sides = []
    for number, shape in enumerate(EQUATIONS[equation]):
        low, wide = draw((IMAGES, *shape), number), draw((IMAGES, *shape), number + 2).abs()
        sides.append((low, low + torch.where(wide < 0.2, 0.0, wide)))
    return sides


def points(box: tuple[Tensor, Tensor], seed: int, image: int) -> Tensor:
    """Points of the box of an image, half of them corners."""
    shares = torch.rand(POINTS, *box[0].shape[1:], dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    shares[::2] = shares[::2].round()
    return box[0][image] + shares * (box[1] - box[0])[image]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("slide", ["middle", "zero", "one", "random"])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_a_product_stays_above_its_relaxation_and_inside_its_box(
    equation: str, slide: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    product, (box_x, box_y) = Bilinear(equation), boxes(equation)
    for most in (products.SLIDES, 0):
        monkeypatch.setattr(products, "SLIDES", most)
        low, high = product.box(box_x, box_y)
        forms = draw((IMAGES, ROWS, *low.shape[1:]), 9)
        alphas = product.usual(forms, box_x[0], box_y[0])
        noise = torch.rand(alphas.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        choice = {"middle": None, "zero": 0 * alphas, "one": 2 * alphas, "random": noise}[slide]
        on_x, on_y, constant = product.relax_forms(forms, box_x, box_y, choice)
        for image in range(IMAGES):
            x, y = points(box_x, 5, image), points(box_y, 6, image)
            z = product(x, y)
            assert bool((z >= low[image] - 1e-12).all() and (z <= high[image] + 1e-12).all())
            value = z.reshape(POINTS, -1) @ forms[image].reshape(ROWS, -1).T
            line = x.reshape(POINTS, -1) @ on_x[image].reshape(ROWS, -1).T
            line = line + y.reshape(POINTS, -1) @ on_y[image].reshape(ROWS, -1).T + constant[image]
            assert bool((value >= line - 1e-11).all())
            if z[0].numel() == 1 and slide in ("zero", "one"):  # a plane of McCormick touches the product
                assert float((value - line).amin(0).max()) < 1e-9
            assert float(z.amin(0).sub(low[image]).max()) < (0.3 if z[0].numel() > 1 else 1e-9)  # corners are reached


def test_the_middle_of_the_two_planes_is_the_usual_relaxation() -> None:
    product, (box_x, box_y) = Bilinear("Nab,Nbc->Nac"), boxes("Nab,Nbc->Nac")
    forms = draw((IMAGES, ROWS, 2, 2), 9)
    usual = product.relax_forms(forms, box_x, box_y, product.usual(forms, box_x[0], box_y[0]))
    for a, b in zip(product.relax_forms(forms, box_x, box_y), usual, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    "operation",
    [Centre(), Differences(), Matrices(draw((2, 4, 3), 1), left=False), Matrices(draw((2, 3, 2), 1), left=True)],
)
def test_affine_operations_have_the_adjoint_and_the_spread_of_their_matrix(operation: Affine) -> None:
    shape = (2, 2, 4)
    matrix = torch.autograd.functional.jacobian(
        lambda x: operation(x.view(1, *shape)).flatten(), draw(shape, 0).flatten()
    )
    assert isinstance(matrix, Tensor)
    wide = draw((1, *shape), 1).abs()
    torch.testing.assert_close(operation.spread(wide).flatten(), matrix.abs() @ wide.flatten())
    forms = draw((5, *operation(draw((1, *shape), 2)).shape[1:]), 3)
    torch.testing.assert_close(operation.adjoint(forms)[0].flatten(1), forms.flatten(1) @ matrix)


def test_a_known_total_changes_no_form_and_tightens_its_box() -> None:
    x = draw((IMAGES, 2, 4), 0).softmax(-1)
    low, high = (x - 0.1 * draw(x.shape, 1).abs()), (x + 0.1 * draw(x.shape, 2).abs())
    forms, total = draw((IMAGES, ROWS, 2, 4), 3), Total(1.0)
    shifted, constant = total.subtract_medians(forms, (low, high))
    values = (forms * x[:, None]).flatten(2).sum(2)
    torch.testing.assert_close((shifted * x[:, None]).flatten(2).sum(2) + constant, values)
    spread = [(a.abs() * (high - low)[:, None]).flatten(2).sum(2) for a in (forms, shifted)]
    assert bool((spread[1] <= spread[0] + 1e-12).all())
    inner = total.box((low, high))
    assert bool((inner[0] <= x).all() and (x <= inner[1]).all() and (inner[1] - inner[0] <= high - low).all())


CERTIFIERS = [Interval(), CrownIbp(), Crown(), Crown(intervals=False), AlphaCrown(inside=2, steps=6)]


def false_proofs(name: str, norm: str, certifiers: list, seed: int = 0) -> int:
    """How many certificates are above a margin that an image of the ball reaches, in float64."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = TRANSFORMERS[name]()
        for layer in network.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                layer.weight.data *= 1.5
    radii = torch.tensor([0.003, 0.03, 0.15] if norm == "linf" else [0.01, 0.1, 0.5], dtype=torch.float64)
    x = draw((3, *SHAPE), seed + 1).float().sigmoid()
    margin = Margin(draw((3, 4, 3), seed + 2).float(), draw((3, 4), seed + 3).float())
    least = reached(network, margin, x, radii, norm)
    ball = Linf(1.0) if norm == "linf" else L2(1.0)
    encoder, count = Encoder(network, mean=0, std=1), 0
    for certifier in certifiers:
        bound = certifier(encoder, margin, x, ball, radii).lower
        count += int((bound > least + 1e-9).sum())
        if isinstance(certifier, AlphaCrown):  # and they say something: at small radii at least half the range is known
            clean = margin(network(x)).double()
            assert float(((clean - bound) / (clean - least))[0].median()) < 2.5, name
    return count


def reached(network: nn.Module, margin: Margin, x: Tensor, radii: Tensor, norm: str) -> Tensor:
    """Return the least margins that gradient descent from random images finds in float64, [B, R]."""
    double = Encoder(network, mean=0, std=1).module.double().eval()
    weights, bias = margin.weights.double(), margin.bias.double()
    rows, radius = bias.shape[1], radii.view(-1, 1, 1, 1, 1, 1)
    centre = x.double()[:, None, None]
    moved = centre + radius * draw((len(x), rows, 20, *SHAPE), 7).clamp(-1, 1) / (1 if norm == "linf" else 4)
    least = torch.full(bias.shape, torch.inf, dtype=torch.float64)
    for step in range(25):
        moved = moved.clamp(0, 1).detach().requires_grad_()
        values = double(moved.flatten(0, 2)).unflatten(0, moved.shape[:3])
        values = (values * weights[:, :, None]).sum(-1) + bias[:, :, None]
        least = torch.minimum(least, values.detach().amin(2))
        slope = torch.autograd.grad(values.sum(), moved)[0]
        length = 2 / (step + 2)
        if norm == "linf":
            moved = centre + (moved - length * radius * slope.sign() - centre).clamp(-radius, radius)
        else:
            unit = slope / slope.flatten(3).norm(dim=3).clamp_min(1e-30)[..., None, None, None]
            away = moved - length * radius * unit - centre
            size = away.flatten(3).norm(dim=3)[..., None, None, None]
            moved = centre + away * (radius / size.clamp_min(1e-30)).clamp_max(1)
    network.float()
    return least


ALIKE = ("bmm", "einsum")
"""Products that are read as that of two matrices is."""


@pytest.mark.sweep(6)
@pytest.mark.parametrize("norm", ["linf", pytest.param("l2", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in TRANSFORMERS]
)
def test_no_attack_beats_a_certificate(name: str, norm: str) -> None:
    """Whole layers climb to their slopes in long runs alone."""
    long = name in ("encoder_layer", "norm_first", "causal", "masked", "multihead_weights") and norm == "linf"
    assert false_proofs(name, norm, CERTIFIERS[: -1 if long else None]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["encoder_layer", "norm_first", "causal", "masked", "multihead_weights"])
def test_no_attack_beats_a_certificate_with_chosen_slopes(name: str) -> None:
    assert false_proofs(name, "linf", CERTIFIERS[-1:]) == 0


NUMBERS: dict[str, Callable[[Tensor], Tensor]] = {
    "local_response_norm": lambda z: nn.functional.local_response_norm(z, 3, alpha=1.0),
    "product": lambda z: z * z.sigmoid(),
    "quotient": lambda z: z.relu() / (1 + z.abs()),
    "of vectors": lambda z: z.flatten(1) * z.flatten(1).tanh(),
    "mean": lambda z: z.flatten(1).mean(1).relu()[:, None] * z.flatten(1),
    "ratio of sums": lambda z: (z.flatten(1).relu().sum(1) / (1 + z.flatten(1).abs().sum(1)))[:, None] + z.flatten(1),
}


class OfNumbers(nn.Module):
    """A function of a few numbers between a convolution and a matrix."""

    def __init__(self, function: Callable[[Tensor], Tensor], count: int) -> None:
        super().__init__()
        self.first, self.function, self.last = nn.Conv2d(1, count, SHAPE[1:]), function, nn.Linear(count, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x[:, :1])).flatten(1))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", NUMBERS)
def test_single_numbers_are_bounded_as_vectors_are(name: str, count: int) -> None:
    """Maps of 1 x 1 pixels and one channel are a number, which once had no axis that forms could read."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = OfNumbers(NUMBERS[name], count)
    x, radii = draw((2, *SHAPE), 1).float().sigmoid(), torch.full((2,), 0.03, dtype=torch.float64)
    margin = Margin(draw((2, 4, 3), 2).float(), draw((2, 4), 3).float())
    least = reached(network, margin, x, radii, "linf")
    for certifier in (Interval(), CrownIbp(), Crown()):
        lower = certifier(Encoder(network, mean=0, std=1), margin, x, Linf(1.0), radii).lower
        assert bool((lower <= least + 1e-9).all())
        assert bool(lower.isfinite().all())


@pytest.mark.sweep(3)
@pytest.mark.parametrize("certifier", CERTIFIERS)
def test_scores_that_overflow_over_all_images_spoil_no_proof_at_a_small_radius(certifier: Certifier) -> None:
    """exp(710) is infinite: interval arithmetic over all images, of which the slack is a share, must not become NaN."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Tokens(Attends(by_matmul))
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data *= 16
    x = draw((1, *SHAPE), 1).float().sigmoid()
    margin = Margin(draw((1, 4, 3), 2).float(), torch.zeros(1, 4))
    encoder = Encoder(network, mean=0, std=1)
    clean = (margin.weights.double() @ copy.deepcopy(network).double()(x.double())[..., None]).squeeze(-1)
    for radius in (1e-7, 0.5):
        bound = certifier(encoder, margin, x, Linf(radius))
        assert not bool(bound.lower.isnan().any() or bound.slack.isnan().any())
        assert bool((bound.lower <= clean).all())
    tight = certifier(encoder, margin, x, Linf(1e-7)).lower
    assert bool(tight.isfinite().all()) or isinstance(certifier, Interval | CrownIbp)


def changed(owner: type, name: str, change: Callable) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        before = getattr(owner, name)
        patch.setattr(owner, name, lambda self, *args: change(self, before, *args))

    return plant


def no_remainder(self: Bilinear, before: Callable, forms: Tensor, x: tuple, y: tuple, alphas: Tensor | None) -> tuple:
    on_x, on_y, constant = before(self, forms, x, y, alphas)
    wide = self((x[1] - x[0]) / 2, (y[1] - y[0]) / 2)
    return on_x, on_y, constant + 2 * (forms.abs() * wide[:, None]).flatten(2).sum(2)


PLANTED = {
    "the remainder of a product has the wrong sign": (changed(Bilinear, "relax_forms", no_remainder), "squares"),
    "a product is expanded around an end of its box": (
        changed(Bilinear, "relax_forms", lambda self, old, a, x, y, s: old(self, a, (x[0], 2 * x[0] - x[1]), y, s)),
        "squares",
    ),
    "the box of a product is that of its centres": (
        changed(Bilinear, "box", lambda self, before, x, y: ((self(sum(x) / 2, sum(y) / 2),) * 2)), "gated_unit",
    ),
    "the mean is not subtracted from forms": (changed(Centre, "adjoint", lambda self, before, a: (a,)), "layer_norm"),
    "what a total gives is added twice": (
        changed(Total, "subtract_medians", lambda self, old, a, b: (old(self, a, b)[0], 2 * old(self, a, b)[1])),
        "matmul",
    ),
}  # fmt: skip


@pytest.mark.sweep(3)
@pytest.mark.parametrize("bug", PLANTED)
def test_the_property_notices_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, name = PLANTED[bug]
    plant(monkeypatch)
    assert any(false_proofs(name, "linf", [CrownIbp(), Crown()], seed) for seed in (0, 1, 2))
