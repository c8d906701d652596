"""The multipliers of splits as a linear program: the best ones, where every activation is a line."""

from dataclasses import replace
from typing import Any

import scipy
import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.numerics.bounds.forms import Dense
from holdfast.numerics.bounds.optimise import AlphaBeta, Problem

MOST = 1e6
"""Sum of β that a linear program may use, in units of β, which is usually about 1."""


def multipliers(problem: Problem, parameters: AlphaBeta) -> dict[int, Tensor]:
    """Return the β of one row over a box that prove most, in the unit of `Problem.signs`, up to `MOST` together.

    With exact activations the row is c·x, and a value that was cut is g·x + d, with the constraint ±(g·x + d - end) <=
    0. Then the β of β-CROWN are the multipliers λ of

        min c·x + MOST s  over  low <= x <= high,  s >= 0,  ±(g·x + d - end) <= s.

    Where no image fulfils the constraints, they prove as much as `MOST` allows. Where activations are relaxed, the β
    are still valid, and good ones.

    Args:
        problem: one image, one row, float64, a ball that is a box.
        parameters: α, which stay, and the β that are returned where the solver gives up.

    Source: duality of linear programs; Wang et al. (2021), "Beta-CROWN", Theorem 3.2.

    Example:
        >>> from holdfast.numerics.bounds.affine import Scale
        >>> from holdfast.numerics.bounds.backward import Region, standard_relaxations
        >>> from holdfast.numerics.bounds.network import Network, Node
        >>> from holdfast.numerics.bounds.relu import Relu
        >>> from holdfast.parts.threats.linf import Linf
        >>> ones = torch.ones(1, 1, 2).double()
        >>> shift = Node(Scale(ones, -ones / 2), (0,), (1, 1, 2), "x - ½")
        >>> network = Network((Node(None, (), (1, 1, 2), "x"), shift, Node(Relu(), (1,), (1, 1, 2), "relu")))
        >>> region = Region.around(Linf(0.5), torch.full((1, 1, 1, 2), 0.5), torch.tensor([0.5]).double())
        >>> ranges = {1: (0 * ones[None], 0.5 * ones[None])}  # of a leaf in which both values are cut at 0
        >>> row, lines = Dense(torch.tensor([[[[[1.0, -1.0]]]]]).double()), standard_relaxations(network, ranges)
        >>> leaf = Problem(network, 2, row, region, ranges, lines, {1: ones[None, None]})
        >>> best = multipliers(leaf, AlphaBeta({}, {1: 0 * ones[None, None]}))
        >>> best[1].flatten().tolist(), round(leaf.bound(AlphaBeta({}, best)).item(), 6)
        ([1.0, 0.0], -0.5)
    """
    # the constraints, node by node, in units of β
    rows, ends, places = [], [], []
    for node, sign in problem.signs.items():
        cut = sign.flatten().nonzero().flatten()
        if not len(cut):
            continue
        # For each value that was cut one form: minus its sign (times the unit of β) at its place
        signs = sign.flatten()[cut]
        forms = signs.new_zeros(len(cut), sign.numel()).scatter_(1, cut[:, None], -signs[:, None])
        coefs, constants = _on_the_image(problem, parameters, node, forms.view(1, len(cut), *sign.shape[2:]))
        low, high = (end.flatten()[cut] for end in problem.ranges[node])
        rows.append(coefs)
        # The constraint as -sign (g·x + d - end) <= 0: what stands beside the coefficients of x
        ends.append(constants + signs * torch.where(signs > 0, low, high))
        places.append((node, cut))
    # the program, and the multipliers of its solution
    row, _ = _on_the_image(problem, parameters, problem.start, problem.form.dense().coefs)
    # s, the last unknown, takes up what a constraint lacks, so the program always has a solution
    elastic = F.pad(torch.cat(rows), (0, 1), value=-1.0)
    box = F.pad(torch.stack([end.flatten() for end in problem.region.box], 1), (0, 0, 0, 1), value=torch.inf)
    box[-1, 0] = 0  # s >= 0
    numbers = (F.pad(row[0], (0, 1), value=MOST), elastic, -torch.cat(ends))
    program: Any = scipy.optimize.linprog(*(part.cpu().numpy() for part in numbers), bounds=box.cpu().numpy())
    if program.status:  # the solver gave up: any β are valid
        return parameters.betas
    # SciPy's multipliers of "at most" are never positive but for rounding
    betas = torch.from_numpy(-program.ineqlin.marginals).to(box).clamp_min(0)
    best = {node: torch.zeros_like(sign) for node, sign in problem.signs.items()}
    for (node, cut), part in zip(places, betas.split([len(cut) for _, cut in places]), strict=True):
        best[node].view(-1)[cut] = part
    return best


def _on_the_image(problem: Problem, parameters: AlphaBeta, node: int, forms: Tensor) -> tuple[Tensor, Tensor]:
    """Return forms on a node as forms on the image that are nowhere larger: coefficients [R, P] and constants [R]."""
    trail: dict[int, Tensor] = {}
    with torch.no_grad():
        # α of the one row serve all forms: any α are valid
        same = replace(problem, start=node, form=Dense(forms), signs={})
        alphas = {k: t.expand(1, forms.shape[1], *t.shape[2:]).clone() for k, t in parameters.alphas.items()}
        least = same.bound(AlphaBeta(alphas), trail)
        # The bound less the minimum of its linear part over the ball is the constant
        return trail[0][0].flatten(1), (least - problem.region.least(Dense(trail[0])))[0]
