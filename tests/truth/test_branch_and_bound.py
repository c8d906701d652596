"""Branch and bound finds the minimum, whatever the activation, and its leaves cover the ball."""

from copy import deepcopy

import pytest
import torch
from tiny_transformers import SHAPE, Attends, Tokens, by_matmul
from torch import Tensor, nn

from holdfast.core import Encoder, Margin
from holdfast.numerics.bounds.activations import Relu
from holdfast.numerics.bounds.affine import Scale
from holdfast.numerics.bounds.backward import Region, standard_relaxations
from holdfast.numerics.bounds.branch import Tree
from holdfast.numerics.bounds.forms import Dense
from holdfast.numerics.bounds.linear_program import multipliers
from holdfast.numerics.bounds.network import Network, Node
from holdfast.numerics.bounds.optimise import AlphaBeta, Problem
from holdfast.parts.certifiers.alpha_crown import AlphaCrown
from holdfast.parts.certifiers.beta_crown import BetaCrown
from holdfast.parts.threats.linf import Linf

RADIUS = 0.2
X = torch.full((1, 1, 1, 2), 0.5)
MARGIN = Margin(torch.tensor([[[1.0, -0.7]]]), torch.zeros(1, 1))


def two_layers(activation: nn.Module) -> Encoder:
    torch.manual_seed(1)
    layers = nn.Linear(2, 8), activation, nn.Linear(8, 8), activation, nn.Linear(8, 2)
    network = nn.Sequential(nn.Flatten(), *layers)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(2)
    return Encoder(network, mean=0, std=1)


def least_on_a_grid(encoder: Encoder, points: int = 401) -> float:
    """The margin's minimum over a grid of the ball, in float64."""
    side = torch.linspace(0.5 - RADIUS, 0.5 + RADIUS, points, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(side, side, indexing="ij"), -1).view(-1, 1, 1, 2)
    with torch.no_grad():
        reps: Tensor = deepcopy(encoder.module).double()(grid)
    return (reps @ MARGIN.weights[0, 0].double()).min().item()


@pytest.mark.slow
@pytest.mark.parametrize(
    "activation", [nn.GELU(), pytest.param(nn.SiLU(), marks=pytest.mark.slow)], ids=lambda a: type(a).__name__
)
def test_splits_of_smooth_activations_close_the_gap(activation: nn.Module) -> None:
    encoder = two_layers(activation)
    least = least_on_a_grid(encoder)
    root = AlphaCrown(inside=5, steps=20)(encoder, MARGIN, X, Linf(RADIUS)).lower.item()
    certifier = BetaCrown(splits=30, until="tight", gap=1e-4, inside=5, steps=20, leaf_steps=5)
    lower = certifier(encoder, MARGIN, X, Linf(RADIUS)).lower.item()
    assert root < least
    assert lower <= least + 1e-9
    assert least - lower < 0.5 * (least - root)


def leaf_of_two(low: tuple[float, float], high: tuple[float, float], signs: tuple[int, int]) -> Problem:
    """min relu(a) - relu(b) over pixels a, b of [0, 1] less a half, with ranges that were cut."""
    halves, shape = torch.full((1, 1, 2), 0.5, dtype=torch.float64), (1, 1, 2)
    shift = Node(Scale(2 * halves, -halves), (0,), shape, "x - ½")
    network = Network((Node(None, (), shape, "x"), shift, Node(Relu(), (1,), shape, "relu")))
    region = Region.around(Linf(0.5), torch.full((1, *shape), 0.5), torch.tensor([0.5]).double())
    ranges = {1: (torch.tensor([[[low]]]).double(), torch.tensor([[[high]]]).double())}
    row = Dense(torch.tensor([[[[[1.0, -1.0]]]]]).double())
    cut = {1: torch.tensor([[[[signs]]]]).double()}
    return Problem(network, 2, row, region, ranges, standard_relaxations(network, ranges), cut)


def proved_by_multipliers(leaf: Problem) -> float:
    none = AlphaBeta({}, {1: torch.zeros_like(leaf.signs[1])})
    best = AlphaBeta({}, multipliers(leaf, none))
    assert all(bool((beta >= 0).all()) for beta in best.betas.values())
    return leaf.bound(best).item()


@pytest.mark.parametrize(
    ("low", "high", "signs", "least"),
    [
        ((0.0, 0.0), (0.5, 0.5), (1, 1), -0.5),  # b at its end
        ((0.2, 0.0), (0.5, 0.1), (1, -1), 0.1),  # both constraints hold the minimum
        ((-0.5, 0.0), (0.0, 0.3), (-1, -1), -0.3),
        ((-0.5, -0.5), (0.0, 0.0), (-1, -1), 0.0),  # both are inactive
    ],
)
def test_the_multipliers_of_a_linear_program_find_the_minimum(
    low: tuple[float, float], high: tuple[float, float], signs: tuple[int, int], least: float
) -> None:
    assert proved_by_multipliers(leaf_of_two(low, high, signs)) == pytest.approx(least, abs=1e-6)


def test_a_leaf_without_images_proves_anything() -> None:
    """a is at least ¾, which no pixel is: the multiplier grows as far as it may."""
    assert proved_by_multipliers(leaf_of_two((0.75, 0.0), (1.0, 0.5), (1, 1))) > 1e4


@pytest.mark.slow
@pytest.mark.parametrize(
    "activation",
    [nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SELU(), nn.SiLU(), nn.Hardswish(), nn.PReLU()],
    ids=lambda a: type(a).__name__,
)
def test_enough_splits_find_the_minimum(activation: nn.Module) -> None:
    encoder = two_layers(activation)
    least = least_on_a_grid(encoder, 801)
    lower = BetaCrown(splits=2000, until="tight")(encoder, MARGIN, X, Linf(RADIUS)).lower.item()
    assert least - 1e-3 < lower <= least + 1e-9


def test_splits_of_attention_help_and_stay_below_images_of_the_ball() -> None:
    torch.manual_seed(0)
    encoder = Encoder(Tokens(Attends(by_matmul)).eval(), mean=0, std=1)
    x, ball = torch.rand(1, *SHAPE), Linf(0.1)
    margin = Margin(torch.tensor([[[1.0, -1.0, 0.5]]]), torch.zeros(1, 1))
    root, lower = (
        BetaCrown(splits, "tight", inside=0, steps=5, leaf_steps=5)(encoder, margin, x, ball).lower.item()
        for splits in (0, 6)
    )
    draws = (x + 0.1 * (2 * torch.rand(20_000, *SHAPE) - 1).sign()).clamp(0, 1)
    with torch.no_grad():
        least = (encoder(draws) @ margin.weights[0, 0]).min().item()
    assert root < lower <= least + 1e-6


def test_both_halves_of_a_leaf_meet_where_it_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The places between halves of all splits of a search."""
    halves_of = Tree._halves
    pairs = []

    def watched(tree: Tree, leaf, split) -> list:  # type: ignore[no-untyped-def]
        halves = halves_of(tree, leaf, split)
        pairs.append((tree, leaf, split, halves))
        return halves

    monkeypatch.setattr(Tree, "_halves", watched)
    BetaCrown(splits=4, until="tight", inside=1, steps=2, leaf_steps=1)(two_layers(nn.Tanh()), MARGIN, X, Linf(RADIUS))
    assert len(pairs) > 4
    for tree, leaf, split, (above, below) in pairs:
        low, high = leaf.ranges.get(split.node) or (end[0] for end in tree.ranges[split.node])
        index = split.index
        assert above.ranges[split.node][0].flatten()[index] == below.ranges[split.node][1].flatten()[index]
        assert above.ranges[split.node][1].equal(high)
        assert below.ranges[split.node][0].equal(low)
        assert low.flatten()[index] < split.place < high.flatten()[index]
