"""Branch and bound over the ranges of values: subproblems, how they are bounded together, and where they are split."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from holdfast.numerics.bounds.backward import Region, in_precision, standard_relaxations
from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.choice import costs, cut
from holdfast.numerics.bounds.forms import Dense
from holdfast.numerics.bounds.linear_program import multipliers
from holdfast.numerics.bounds.margin import Margin
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.optimise import AlphaBeta, Ascent, Problem, optimise
from holdfast.numerics.bounds.relaxation import Curved, LinearRelaxation

Key = TypeVar("Key")

CANDIDATES = 12
"""Values per subproblem whose split is tried before one is chosen."""

TRIED = 64
"""Splits that are tried together: what is larger leaves the caches of a CPU."""

LONGER = 25
"""How many times more steps of ascent a leaf gets in which nothing is left to split."""


@dataclass(frozen=True, eq=False)
class Split:
    """Where a range is cut: a node, a flat index of its values, and the place.

    Attributes:
        node: whose range.
        index: which value, flat.
        place: between both halves.
    """

    node: int
    index: int
    place: float


@dataclass(frozen=True, eq=False)
class Leaf:
    """The part of the ball in which some values of the network have narrower ranges.

    Attributes:
        row: of the margin.
        ranges: of the nodes of which some range was cut, [*shape].
        signs: which end of a value's range was cut last: +1 (the lower), -1 (the upper) or 0 (none), [*shape] for each
            node.
        parameters: the best so far, [*shape] for each node.
        lower: a proved lower bound of the row.
        split: what is worth splitting; None where nothing is.
    """

    row: int
    ranges: dict[int, Box]
    signs: dict[int, Tensor]
    parameters: AlphaBeta
    lower: float
    split: Split | None = None


@dataclass(frozen=True, eq=False)
class Tree:
    """What all leaves of one image share.

    Attributes:
        network: in float64.
        margin: rows of the image, a batch of one.
        region: of the image, a batch of one.
        ranges: of the inputs of curved nodes over the whole ball.
        scales: the usual size of each row's coefficients of what reads a node, the unit of β, [R], for each node that
            may be split.
    """

    network: Network
    margin: Margin
    region: Region
    ranges: dict[int, Box]
    scales: dict[int, Tensor]

    @cached_property
    def single(self) -> "Tree":
        """The tree in float32, to look for parameters and splits."""
        kind = torch.float32
        ranges = in_precision(self.ranges, kind)
        return Tree(self.network.single, self.margin.to(kind), self.region.to(kind), ranges, self.scales)

    @cached_property
    def relaxations(self) -> dict[int, LinearRelaxation]:
        """Those of the whole ball."""
        return standard_relaxations(self.network, self.ranges)

    def roots(self, rows: list[int], parameters: AlphaBeta, lower: Tensor) -> list[Leaf]:
        """Return the leaves without a split: one for each row, with the slopes that α-CROWN chose."""
        signs = {i: torch.zeros(self.network.nodes[i].shape, device=self.region.x.device) for i in self.scales}
        leaves = []
        for row in rows:
            alphas = {k: t[0, row].float() for k, t in parameters.alphas.items()}
            betas = {k: torch.zeros_like(s) for k, s in signs.items()}
            leaves.append(Leaf(row, {}, signs, AlphaBeta(alphas, betas), float(lower[row])))
        return self._choose_splits(leaves)

    def split(self, leaves: list[Leaf], ascent: Ascent) -> tuple[list[Leaf], Tensor, Tensor]:
        """Return both halves of every leaf, bounded, the row of each, and the row's value at an image of the ball."""
        splits = [(leaf, leaf.split) for leaf in leaves if leaf.split is not None]
        # Both halves of all leaves in one batch
        halves, coefs = self._bound_leaves(
            [half for leaf, split in splits for half in self._halves(leaf, split)], ascent
        )
        ends = [i for i, half in enumerate(halves) if half.split is None]
        if ends:  # nothing is relaxed: what is left is a linear program over a box, elsewhere worth more steps
            many = LONGER * ascent.steps
            # The rate falls to a thousandth over all steps
            longer = Ascent(many, ascent.rate, 1e-3 ** (1 / max(1, many)))
            last = [halves[i] for i in ends]
            last = (
                [self._solve_leaf(x) for x in last] if self.region.ball.is_box else self._bound_leaves(last, longer)[0]
            )
            for i, half in zip(ends, last, strict=True):
                halves[i] = half
        rows = torch.tensor([half.row for half in halves])
        return halves, rows, self._compute_upper_bounds(rows, coefs)

    def _bound_leaves(self, leaves: list[Leaf], ascent: Ascent) -> tuple[list[Leaf], Tensor]:
        """Return the leaves with their best parameters, bounds and next split, and their coefficients on the image."""
        # the best α and β of every leaf in float32, and the bound they give in float64
        best = optimise(self.single._problem(leaves), ascent, _stack_parameters(leaves))[1]
        trail: dict[int, Tensor] = {}
        with torch.no_grad():
            lower = self._problem(leaves).bound(best.to(torch.float64), trail)[:, 0]
            # The bias is no part of the form
            lower = lower + self.margin.bias[0, [leaf.row for leaf in leaves]]
        bounded = []
        for i, (leaf, proved) in enumerate(zip(leaves, lower.tolist(), strict=True)):
            alphas = {k: t[i, 0] for k, t in best.alphas.items()}
            betas = {k: t[i, 0] for k, t in best.betas.items()}
            lowest = max(leaf.lower, proved)  # a part is never worse than the whole
            bounded.append(replace(leaf, parameters=AlphaBeta(alphas, betas), lower=lowest))
        return self._choose_splits(bounded, trail), trail[0][:, 0]

    def _solve_leaf(self, leaf: Leaf) -> Leaf:
        """Return a leaf without anything to split, with the multipliers of its linear program."""
        problem, parameters = self._problem([leaf]), _stack_parameters([leaf]).to(torch.float64)
        best = AlphaBeta(parameters.alphas, multipliers(problem, parameters))
        with torch.no_grad():
            lower = problem.bound(best)[0, 0] + self.margin.bias[0, leaf.row]
        return replace(leaf, lower=max(leaf.lower, float(lower)))

    def _halves(self, leaf: Leaf, split: Split) -> list[Leaf]:
        """Return both parts of a leaf; the multiplier of the value that is split begins at 0."""
        node, parameters = split.node, leaf.parameters
        # The constraint of this value is a new one, perhaps on its other side
        betas = {**parameters.betas, node: _replace_entry(parameters.betas[node], split.index, 0.0)}
        low, high = leaf.ranges.get(node) or (end[0] for end in self.ranges[node])
        halves = []
        # Above the place z >= place is the constraint, below it z <= place
        for sign in (1.0, -1.0):
            cut = _replace_entry(low if sign > 0 else high, split.index, split.place)
            part = {**leaf.ranges, node: (cut, high) if sign > 0 else (low, cut)}
            signs = {**leaf.signs, node: _replace_entry(leaf.signs[node], split.index, sign)}
            halves.append(Leaf(leaf.row, part, signs, AlphaBeta(parameters.alphas, betas), leaf.lower))
        return halves

    def _problem(self, leaves: list[Leaf]) -> Problem:
        """Return the bound of every leaf's row as one batch, each with its own ranges."""
        many, kind = len(leaves), self.region.x.dtype
        narrowed = {node for leaf in leaves for node in leaf.ranges}
        # Views: where no leaf was cut, the ranges of the whole ball serve all of them
        ranges = {
            k: (low.expand(many, *low.shape[1:]), high.expand(many, *high.shape[1:]))
            for k, (low, high) in self.ranges.items()
        }
        for node in narrowed:
            parts = [leaf.ranges.get(node) or (end[0] for end in self.ranges[node]) for leaf in leaves]
            low, high = (torch.stack([end.to(kind) for end in ends]) for ends in zip(*parts, strict=True))
            ranges[node] = (low, high)
        # relaxations: of what reads a range that was cut anew, elsewhere those of the whole ball
        renewed = [i for i in self.relaxations if self.network.nodes[i].inputs[0] in narrowed]
        relaxations = {
            i: self._relax_node(i, ranges) if i in renewed else relaxation.spread(many)
            for i, relaxation in self.relaxations.items()
        }
        # one row per leaf, all around the same image; β multiplies sign · scale
        form = Dense(self.margin.weights[0, [leaf.row for leaf in leaves]][:, None])
        region = self.region.part([0] * many)
        rows, signs = [leaf.row for leaf in leaves], {}
        for node, scale in self.scales.items():
            sign = torch.stack([leaf.signs[node] for leaf in leaves])[:, None].to(kind)
            signs[node] = sign * scale[rows].to(kind).view(-1, *[1] * (sign.ndim - 1))
        return Problem(self.network, len(self.network.nodes) - 1, form, region, ranges, relaxations, signs)

    def _relax_node(self, index: int, ranges: Mapping[int, Box]) -> LinearRelaxation:
        node = self.network.nodes[index]
        assert isinstance(node.operation, Curved)
        return node.operation.relax(ranges[node.inputs[0]])

    def _choose_splits(self, leaves: list[Leaf], trail: dict[int, Tensor] | None = None) -> list[Leaf]:
        """Return the leaves with the split that helps most: some are short-listed by their costs, then tried.

        Each on the list is split with the parameters of the leaf as they are, and that whose weaker half is best is
        chosen.
        """
        if not self.scales:  # nothing is relaxed: the bound is final
            return leaves
        problem = self.single._problem(leaves)
        if trail is None:
            trail = {}
            with torch.no_grad():
                problem.bound(_stack_parameters(leaves), trail)
        # short-list: the values whose relaxations may cost most
        trail = {k: coefs.to(problem.region.x) for k, coefs in trail.items()}
        at_most = costs(self.network, problem.ranges, problem.relaxations, trail)
        scores, places = [], []
        for node in self.scales:
            place, worth = cut(self.network, node, problem.ranges[node])
            cost = at_most.get(node, torch.zeros_like(place))
            scores.append(torch.where(worth & (cost > 0), cost, -1.0).reshape(len(leaves), -1))
            places.append(place.reshape(len(leaves), -1))
        listed = torch.cat(scores, 1)  # -1: not worth a split
        best, order = listed.topk(min(CANDIDATES, listed.shape[1]), 1)
        place = torch.cat(places, 1).gather(1, order).tolist()
        best, order = best.tolist(), order.tolist()
        # (node, flat index) of every column of `listed`
        owners = [
            (node, index) for node, score in zip(self.scales, scores, strict=True) for index in range(score.shape[1])
        ]
        tried = [
            (number, Split(*owners[index], place=where))
            for number in range(len(leaves))
            for index, where, cost in zip(order[number], place[number], best[number], strict=True)
            if cost >= 0
        ]
        if not tried:
            return leaves
        # try each of them (FSB), and take the split whose weaker half is best
        pick: dict[int, tuple[float, Split]] = {}
        for first in range(0, len(tried), TRIED):
            together = tried[first : first + TRIED]
            for (number, split), weaker in zip(together, self._weaker(leaves, together), strict=True):
                if number not in pick or weaker > pick[number][0]:
                    pick[number] = (weaker, split)
        return [replace(leaf, split=pick[i][1]) if i in pick else leaf for i, leaf in enumerate(leaves)]

    @torch.no_grad()
    def _weaker(self, leaves: list[Leaf], splits: list[tuple[int, Split]]) -> list[float]:
        """Return the bound of the weaker half of some splits, each of a leaf by its number; the other one breaks ties.

        The halves keep the parameters of their leaf.
        """
        halves = [half for number, split in splits for half in self._halves(leaves[number], split)]
        # Both halves of a split in each row
        bounds = self.single._problem(halves).bound(_stack_parameters(halves)).view(-1, 2)
        return (bounds.amin(1) + 1e-3 * bounds.amax(1)).tolist()

    def _compute_upper_bounds(self, rows: Tensor, coefs: Tensor) -> Tensor:
        """Return each row's value at the image of the ball where the linear bound is lowest: an upper bound."""
        ball, x = self.region.ball, self.region.x
        with torch.no_grad():
            # Clamped: x lies in [0, 1], so that shortens the step, and the image stays in the ball
            step = ball.ascend(-coefs) * self.region.radii[0]
            reps = self.network((x + step).clamp(0, 1))
            return (self.margin.weights[0, rows] * reps).sum(1) + self.margin.bias[0, rows]


def _replace_entry(values: Tensor, index: int, value: float) -> Tensor:
    """Return a copy with another value at a flat index."""
    changed = values.clone(memory_format=torch.contiguous_format)
    changed.view(-1)[index] = value
    return changed


def _stack_parameters(leaves: list[Leaf]) -> AlphaBeta:
    """Return the parameters of some leaves as a batch, one row each."""

    def stack(parts: list[dict[Key, Tensor]]) -> dict[Key, Tensor]:
        return {k: torch.stack([part[k] for part in parts])[:, None] for k in parts[0]}

    return AlphaBeta(stack([x.parameters.alphas for x in leaves]), stack([x.parameters.betas for x in leaves]))
