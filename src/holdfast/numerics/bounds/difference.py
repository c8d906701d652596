"""How far two builds of a network can be apart: their difference, bounded step by step instead of each by itself.

A network of its own computes d = a - b from the second network's values b, for the first one's are b + d: behind a
matrix d is A d + (A - B) b, so that what both have in common cancels before anything is bounded. Of two activations
the difference lies between the least and the greatest slope times d, and what one of them does otherwise.

Source: Paulsen, Wang & Wang (2020), "ReluDiff: differential verification of deep neural networks"; Paulsen et al.
(2020), "NeuroDiff", whose lines in d these are, for any activation and for rounding; carried back to the pixels as in
CROWN.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.numerics.bounds.affine import Add, Affine, Conv, Matrices, Matrix, Route, Scale
from holdfast.numerics.bounds.backward import Region, backward, box_of, boxes, meet, standard_relaxations
from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.clip import SLACK as ROOM
from holdfast.numerics.bounds.clip import Clip
from holdfast.numerics.bounds.clipped import join_clips
from holdfast.numerics.bounds.effort import USUAL, Effort, Limit
from holdfast.numerics.bounds.forms import Dense
from holdfast.numerics.bounds.in_step import Pair, match
from holdfast.numerics.bounds.margin import Margin
from holdfast.numerics.bounds.max_pool import Chosen, MaxPool
from holdfast.numerics.bounds.network import Network, Node, Operation
from holdfast.numerics.bounds.ranges import crown_box, ranges_inside
from holdfast.numerics.bounds.relaxation import Curved, LinearRelaxation
from holdfast.numerics.bounds.rounding import SLACK, rounding
from holdfast.numerics.bounds.smooth import Smooth

Ranges = Mapping[int, Box]
"""Those of the inputs of the curved nodes of a network."""

Weighted = Conv | Matrix | Matrices | Scale
"""Affine operations that may have other weights on either side."""

NOTHING = Clip()
"""What a side does where the other one alone rounds or clips."""


@dataclass(frozen=True, eq=False)
class CurvedDifference(Curved):
    """F(a) - G(b) as a function of d = a - b, for a and b in boxes.

    With H, which is F without its rounding, and slopes of H in [m, M] on both boxes together:

        F(a) - G(b) = F(a) - H(a) + H(a) - H(b) + H(b) - G(b),    min(m d, M d) <= H(a) - H(b) <= max(m d, M d)

    The first and the last difference are of one value each, whose range is found from its box.

    Attributes:
        first: F.
        second: G.
        sides: the boxes of a and b; None until they are known.
        read: the nodes of both networks whose values are a and b.
    """

    first: Curved
    second: Curved
    read: Pair
    sides: tuple[Box, Box] | None = None

    @override
    def __call__(self, z: Tensor) -> Tensor:
        raise NotImplementedError("F(a) - G(b) is no function of a - b alone")

    @override
    def box(self, box: Box) -> Box:
        ends = torch.stack([torch.stack(self._between(end)) for end in box])
        return meet((ends[:, 0].amin(0), ends[:, 1].amax(0)), self._apart)

    @override
    def slopes(self, box: Box) -> Box:
        raise NotImplementedError("F(a) - G(b) is no function of a - b alone")

    @override
    def relax(self, box: Box) -> LinearRelaxation:
        low, high = box
        # The lower function bends down and the upper one up, so that chords hold them between them
        (below_low, above_low), (below_high, above_high) = self._between(low), self._between(high)
        below, above = _chord(low, high, below_low, below_high), _chord(low, high, above_low, above_high)
        # Where both are known better each by itself, level lines
        middle, apart = (low + high) / 2, self._apart
        below = _nearer(below, apart[0], below[0] * middle + below[1] >= apart[0])
        above = _nearer(above, apart[1], above[0] * middle + above[1] <= apart[1])
        return LinearRelaxation(*below, *above)

    @property
    def _apart(self) -> Box:
        """The range of F(a) - G(b) whatever d is."""
        a, b = _boxes_of(self.sides)
        return _difference(self.first.box(a), self.second.box(b))

    def _between(self, d: Tensor) -> Box:
        """Return what F(a) - G(b) lies between where a - b = d."""
        a, b = _boxes_of(self.sides)
        plain = self.first.smooth if isinstance(self.first, Clip) else self.first
        least, most = plain.slopes((torch.minimum(a[0], b[0]), torch.maximum(a[1], b[1])))
        # Where a function is not defined on all of a box, nothing is known of its slope
        unknown = least.isnan()
        least, most = least.masked_fill(unknown, -torch.inf), most.masked_fill(unknown, torch.inf)
        gaps = _gap(self.first, plain, a), _gap(plain, self.second, b)
        # 0 times what is infinite is 0: equal values have no difference, nor have those of a level function
        ends = (least * d).nan_to_num(0.0, torch.inf, -torch.inf), (most * d).nan_to_num(0.0, torch.inf, -torch.inf)
        return torch.minimum(*ends) + gaps[0][0] + gaps[1][0], torch.maximum(*ends) + gaps[0][1] + gaps[1][1]


@dataclass(frozen=True)
class MaxDifference(MaxPool):
    """max a - max b as a function of d = a - b: the chosen d where one input rules both maxima, else constants.

    Attributes:
        read: the nodes of both networks whose values are a and b.
        sides: the boxes of a and b; None until they are known.
    """

    read: Pair = (0, 0)
    sides: tuple[Box, Box] | None = None

    @override
    def box(self, box: Box) -> Box:
        # Whatever input is b's maximum, a's is at least that input with its d; so are the roles reversed
        apart = _difference(*(super(MaxDifference, self).box(side) for side in _boxes_of(self.sides)))
        return meet((-self(-box[0]), self(box[1])), apart)

    @override
    def choose(self, box: Box) -> Chosen:
        a, b = (super(MaxDifference, self).choose(side) for side in _boxes_of(self.sides))
        floor, ceiling = self.box(box)
        return Chosen(a.place, a.rules & b.rules & (a.place == b.place), ceiling, floor)


def _boxes_of(sides: tuple[Box, Box] | None) -> tuple[Box, Box]:
    assert sides is not None  # the ranges of both networks come before those of their difference
    return sides


def _difference(a: Box, b: Box) -> Box:
    return a[0] - b[1], a[1] - b[0]


def _chord(low: Tensor, high: Tensor, at_low: Tensor, at_high: Tensor) -> tuple[Tensor, Tensor]:
    """Return the line through two ends, level and without an end where one of them is infinite."""
    wide = (high > low) & (high - low).isfinite()
    slope = torch.where(wide, (at_high - at_low) / torch.where(wide, high - low, 1.0), 0.0)
    # A level line of a range without width, or of nothing that is known, which is then not taken
    return slope, torch.where(wide, at_low - slope * low, torch.where(high == low, at_low, torch.nan))


def _nearer(line: tuple[Tensor, Tensor], level: Tensor, take: Tensor) -> tuple[Tensor, Tensor]:
    """Return a line where it is to be taken, elsewhere a level one; comparisons with NaN are false."""
    return torch.where(take, line[0], 0.0), torch.where(take, line[1], level)


def _gap(one: Curved, other: Curved, box: Box) -> Box:
    """Return the range of F(z) - G(z) on a box."""
    if one == other and not (isinstance(one, Clip) and one.step):
        # The same function, but for what torch's own departs from it
        room = 2 * one.departs if isinstance(one, Smooth) else 0.0
        return torch.full_like(box[0], -room), torch.full_like(box[0], room)
    assert isinstance(one, Clip)
    assert isinstance(other, Clip)  # others are in step only where they are the same
    # Without rounding the difference is made of straight pieces, so its extremes are at ends and corners
    corners = (torch.full_like(box[0], end) for end in (one.low, one.high, other.low, other.high))
    places = torch.stack([*box, *(z.maximum(box[0]).minimum(box[1]) for z in corners)])
    pieces = (one.smooth(places) - other.smooth(places)).nan_to_num(0.0, torch.inf, -torch.inf)
    room = (0.5 + ROOM) * (one.step + other.step)
    return meet((pieces.amin(0) - room, pieces.amax(0) + room), _difference(one.box(box), other.box(box)))


class Apart:
    """f(x') - g(x') of two builds of a network, for all images of a region.

    Args:
        first: f.
        second: g.

    Raises:
        NotCertified: networks that are not in step, see `match`.

    Example:
        >>> from holdfast.parts.threats.linf import Linf
        >>> one = Node(None, (), (1,), "x"), Node(Matrix(torch.tensor([[1.0]]).double(), None), (0,), (1,), "w x")
        >>> other = one[0], Node(Matrix(torch.tensor([[1.25]]).double(), None), (0,), (1,), "w x")
        >>> region = Region.around(Linf(0.1), torch.tensor([[0.5]]), torch.tensor([0.1]).double())
        >>> [round(end.item(), 4) for end in Apart(Network(one), Network(other)).box(region)]
        [-0.15, -0.1]
    """

    def __init__(self, first: Network, second: Network):
        # Clips, of which all values are bounded: a difference needs more of them than a sign
        self.first, self.second = join_clips(first.double), join_clips(second.double)
        # Put together on the CPU, and brought to where both are
        cpu = torch.device("cpu")
        self._nodes = Network(_difference_nodes(self.first.on(cpu), self.second.on(cpu))).on(self.first.device).nodes

    def box(self, region: Region, limit: Limit = USUAL) -> Box:
        """Return the least and the greatest difference of each number, [1, D].

        Args:
            region: where the image may be; of one image.
            limit: how much work each network may be, and their difference.

        Raises:
            NotCertified: it is more work than that, where the limit refuses.
        """
        return self._box(region, *self._inside(region, limit), limit)

    @torch.no_grad()
    def least_cosine(self, region: Region, limit: Limit = USUAL) -> Tensor:
        """Return what the cosine of f(x') and g(x') is at least, [1]; -1 where nothing is proved.

        Two vectors that are δ apart, of which one has the length m, are at an angle of asin(δ / m) at most. The length
        is at least what the vector has along its direction at the image itself.

        Args:
            region: see `box`.
            limit: see `box`.
        """
        inside = self._inside(region, limit)
        low, high = self._box(region, *inside, limit)
        apart = torch.maximum(low.abs(), high.abs()).norm(dim=1)
        lengths = [_shortest(side, region, held) for side, held in zip((self.first, self.second), inside, strict=True)]
        # Either length serves, so the longer one does
        share = apart / torch.stack(lengths).amax(0).clamp_min(0)
        # NaN, of 0 / 0, proves nothing either
        return torch.where(share < 1, (1 - share.square()).clamp_min(0).sqrt() - SLACK, -1.0)

    def _inside(self, region: Region, limit: Limit) -> tuple[Ranges, Ranges]:
        """Return the ranges inside each network by itself."""
        first, second = (ranges_inside(side, region, limit=limit) for side in (self.first, self.second))
        return first, second

    @torch.no_grad()
    def _box(self, region: Region, inside_first: Ranges, inside_second: Ranges, limit: Limit) -> Box:
        """Return the box of the difference, from the ranges inside both networks."""
        a, b = boxes(self.first, region, inside_first), boxes(self.second, region, inside_second)
        nodes, count = list(self._nodes), len(self.second.nodes)
        for index, node in enumerate(nodes):
            operation = node.operation
            if isinstance(operation, (CurvedDifference, MaxDifference)):
                known = replace(operation, sides=(a[operation.read[0]], b[operation.read[1]]))
                nodes[index] = replace(node, operation=known)
        network = Network(tuple(nodes))
        # What CROWN may take beyond that is left to intervals, see `Limit`
        effort = Effort(network, limit, device=region.x.device.type, is_box=region.ball.is_box)
        ranges, relaxations = dict(inside_second), standard_relaxations(self.second, inside_second)
        before, last = dict(b), len(nodes) - 1
        # The second network's own values are bounded already; those of the difference follow in their order
        for index, node in enumerate(nodes[count:], count):
            before[index] = box_of(node, [before[i] for i in node.inputs])
            if isinstance(node.operation, CurvedDifference):
                relaxations[index] = node.operation.relax(ranges[node.inputs[0]])
            if index in network.range_readers or index == last:
                wide = bool((before[index][1] > before[index][0]).any())
                if wide and effort.affords(index, torch.Size(node.shape).numel()):
                    tight = crown_box(network, index, None, region, ranges, relaxations, None, effort, None)
                    before[index] = meet(before[index], tight)
                ranges[index] = before[index]
        low, high = meet(before[last], _difference(a[len(self.first.nodes) - 1], b[count - 1]))
        # Beside what is set aside for rounding: equal weights may differ by that of what was folded into them
        slack = _rounding(network, region, ranges)
        slack = slack + _rounding(self.first, region, inside_first) + _rounding(self.second, region, inside_second)
        return low - slack, high + slack


def _rounding(network: Network, region: Region, ranges: Ranges) -> Tensor:
    """Return what to set aside for rounding in each number of the last node, [1, D]."""
    (dim,) = network.nodes[-1].shape
    identity = torch.eye(dim, dtype=torch.float64, device=region.x.device)[None]
    return rounding(network, Margin(identity, identity.new_zeros(1, dim)), region, ranges)


def _shortest(network: Network, region: Region, ranges: Ranges) -> Tensor:
    """Return what the representation is at least along its direction at the image itself, [1]."""
    clean = network(region.x)
    margin = Margin((clean / clean.norm(dim=1, keepdim=True))[:, None], clean.new_zeros(1, 1))
    relaxations = standard_relaxations(network, ranges)
    least = backward(network, len(network.nodes) - 1, Dense(margin.weights), region, ranges, relaxations)
    return (least - rounding(network, margin, region, ranges))[:, 0]


# --- the network of the difference ---


def _difference_nodes(first: Network, second: Network) -> tuple[Node, ...]:
    """Return the second network's nodes, then those that compute the difference of both from them.

    Raises:
        NotCertified: see `match`.
    """
    builder = _Builder(first, second)
    for pair, inputs in match(first, second).items():
        builder.add_pair(pair, inputs)
    last = builder.of((len(first.nodes) - 1, len(second.nodes) - 1))
    # It may be one from before, such as where one side is added to zeros
    if last < len(builder.nodes) - 1:
        builder.then(Scale(torch.ones(second.nodes[-1].shape, dtype=torch.float64), None), last)
    return tuple(builder.nodes)


class _Builder:
    """The nodes of the network that computes a difference; where there is none, none computes it."""

    def __init__(self, first: Network, second: Network):
        self.first, self.second = first, second
        self.nodes = list(second.nodes)
        self._places: dict[Pair, int | None] = {}

    def then(self, operation: Operation, *inputs: int) -> int:
        """Append a node; return its number."""
        values = (torch.zeros(1, *self.nodes[i].shape, dtype=torch.float64) for i in inputs)
        # Differences of curves keep the shape, and are no functions of the difference alone
        keeps = isinstance(operation, CurvedDifference)
        shape = self.nodes[inputs[0]].shape if keeps else tuple(operation(*values).shape[1:])
        self.nodes.append(Node(operation, inputs, shape, "the difference"))
        return len(self.nodes) - 1

    def of(self, pair: Pair) -> int:
        """Return the number of a difference; where there is none, that of zeros."""
        place = self._places[pair]
        if place is None:
            shape = self.second.nodes[pair[1]].shape
            place = self._places[pair] = self.then(Scale(torch.zeros(shape, dtype=torch.float64), None), pair[1])
        return place

    def add_pair(self, pair: Pair, read: tuple[Pair, ...]) -> None:
        """Append what computes the difference of a pair from those that it is made of."""
        one, other = (network.nodes[i] for network, i in zip((self.first, self.second), pair, strict=True))
        # What one side alone does is done by nothing on the other, whose node stays where it was
        a = one.operation if not read or read[0][0] != pair[0] else None
        b = other.operation if not read or read[0][1] != pair[1] else None
        same = all(self._places[each] is None for each in read)
        if not read:
            self._places[pair] = None  # the image is the same on both sides
        elif isinstance(a or b, Curved):
            first, second = a or NOTHING, b or NOTHING
            assert isinstance(first, Curved)
            assert isinstance(second, Curved)
            # Roundings of equal values are equal, too
            if same and first == second:
                self._places[pair] = None
            else:
                self._places[pair] = self.then(CurvedDifference(first, second, read[0]), self.of(read[0]))
        elif isinstance(a, MaxPool):
            pool = MaxDifference(a.kernel, a.stride, a.padding, a.dilation, a.ceil, a.inner, read[0])
            self._places[pair] = None if same else self.then(pool, self.of(read[0]))
        else:
            self._places[pair] = self._affine(a, b, read, pair)

    def _affine(self, a: Operation | None, b: Operation | None, read: tuple[Pair, ...], pair: Pair) -> int | None:
        """Return the number of A a + c - (B b + e) = A d + (A - B) b + c - e; None where it is 0 everywhere."""
        # A side without a factor has 1
        if isinstance(a or b, Scale):
            ones = Scale(torch.ones(self.second.nodes[pair[1]].shape, dtype=torch.float64), None)
            a, b = a or ones, b or ones
        assert isinstance(a, Affine)
        assert isinstance(b, Affine)
        places = [self._places[each] for each in read]
        if isinstance(a, Weighted) and isinstance(b, Weighted):
            change = _subtract(a, b)
            # A d, and beside it (A - B) b + c - e, as far as either is there
            parts = [] if places[0] is None else [self.then(replace(a, constant=None), places[0])]
            parts += [] if change is None else [self.then(change, read[0][1])]
            return self.then(Add(), *parts) if len(parts) == 2 else next(iter(parts), None)
        if all(place is None for place in places):
            return None
        if isinstance(a, Add) and (places[1] is None or (places[0] is None and a.sign == 1)):
            return next(place for place in places if place is not None)
        # What has no weights is linear but for a constant, which is the same on both sides
        linear = Route(a.spread, a.inner, None) if isinstance(a, Route) and a.constant is not None else a
        return self.then(linear, *(self.of(each) for each in read))


def _subtract(a: Weighted, b: Weighted) -> Weighted | None:
    """Return (A - B) x + c - e; None where it is 0 everywhere."""
    name = "factor" if isinstance(a, Scale) else "weight"
    weight = getattr(a, name) - getattr(b, name)
    constants = [side.constant for side in (a, b) if side.constant is not None]
    if not constants:
        return replace(a, **{name: weight}) if weight.any() else None
    zeros = torch.zeros_like(constants[0])
    c, e = (zeros if side.constant is None else side.constant for side in (a, b))
    constant = c - e if not torch.equal(c, e) else None
    return replace(a, **{name: weight}, constant=constant) if weight.any() or constant is not None else None
