"""The ranges of the values inside a network: layer by layer, each from those before it."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.numerics.bounds.backward import Region, box_of, boxes, meet
from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.effort import USUAL, Effort, Limit
from holdfast.numerics.bounds.footprint import footprint
from holdfast.numerics.bounds.forecast import forecast
from holdfast.numerics.bounds.forms import Dense
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.optimise import AlphaBeta, Ascent, Problem, optimise
from holdfast.numerics.bounds.relaxation import Curved, LinearRelaxation
from holdfast.numerics.bounds.slopes import Slopes
from holdfast.numerics.bounds.units import units

AT_ONCE = {"cpu": 2**20, "cuda": 2**26}
"""Coefficients that one backward pass holds at a time, about: on a CPU what stays in its caches."""

STEP = 3
"""Propagations that one step of ascent is worth, with its gradient."""

FORESIGHT = 15.0
"""Seconds of work, by interval arithmetic, from which on it is foretold more exactly, which takes time itself."""


def ranges_inside(
    network: Network,
    region: Region,
    held: Mapping[int, Box] | None = None,
    ascent: Ascent | None = None,
    intervals: bool = True,
    limit: Limit = USUAL,
    slopes: Slopes | None = None,
    usual: MutableMapping[int, Box] | None = None,
) -> dict[int, Box]:
    """Return the ranges of the inputs of all curved nodes.

    Ranges of one matrix over a box are exact by interval arithmetic. Elsewhere CROWN is met with interval arithmetic,
    and then, with an `ascent`, the slopes below earlier ReLUs are chosen for each end of each range. In front of a
    ReLU only values whose sign is open are worth an effort: for the others it is exact. Before an ascent all ranges of
    CROWN are computed, and hold for it, too: a range that slopes made tighter may have other usual lines, so that
    CROWN from these might prove less in a later layer.

    Args:
        network: the network.
        region: where the images may be.
        held: ranges that hold besides, such as those over a larger region.
        ascent: how to look for α; None: the usual slopes.
        intervals: False for CROWN and α-CROWN alone, which are met with nothing, `held` included.
        limit: how much work it may be.
        slopes: of earlier searches for this image, where an ascent begins; it leaves its own there.
        usual: receives the ranges that CROWN has without the ascent, where there is one.

    Raises:
        NotCertified: it is more work than that.

    Example:
        >>> from holdfast.numerics.bounds.network import Node
        >>> from holdfast.numerics.bounds.relu import Relu
        >>> from holdfast.parts.threats.linf import Linf
        >>> network = Network((Node(None, (), (1, 1, 1), "x"), Node(Relu(), (0,), (1, 1, 1), "relu")))
        >>> region = Region.around(Linf(0.25), torch.full((1, 1, 1, 1), 0.5), torch.tensor([0.25]).double())
        >>> [round(float(end), 6) for end in ranges_inside(network, region)[0]]
        [0.25, 0.75]
    """
    # Interval arithmetic is exact over a box only, and not beyond the first matrix
    exact = network.exact_nodes if region.ball.is_box else frozenset()
    held = held if intervals else None
    before = boxes(network, region, held)
    if not intervals:
        # CROWN alone knows nothing beforehand of what is not exact
        before = {k: box if k in exact else _anything(box, network.nodes[k].known) for k, box in before.items()}
    # what is to be done: by interval arithmetic, or, where that is much, by a forecast
    signs = {k: network.sign_alone(k) for k in network.range_readers if k not in exact | network.following}
    climb, is_box = 0 if ascent is None else STEP * ascent.steps, region.ball.is_box
    effort = Effort(network, limit, climb, region.x.device.type, len(region.x), is_box)
    counts = [(k, _count(network, k, _sign_is_open(before[k]) if sign else None)) for k, sign in signs.items()]
    known = [(k, count, count) for k, count in counts]
    if len(region.x) > 1 and not effort.fits(known):  # the limit is each image's own, whatever its company
        alone = [
            (
                lines := {},  # filled by the call in the next place of the tuple
                ranges_inside(network, region.part([i]), _of(held, i), ascent, intervals, limit, slopes, lines),
            )
            for i in range(len(region.x))
        ]
        if usual is not None:
            usual.update(_together([lines for lines, _ in alone]))
        return _together([ranges for _, ranges in alone])
    if intervals and effort.total(known) > FORESIGHT:
        # The largest radius is the most work
        worst = [int(region.radii.argmax())]
        of_worst = {k: (low[worst], high[worst]) for k, (low, high) in before.items()}
        effort.foretell(forecast(network, region.part(worst), of_worst, signs))
    else:
        effort.foretell(known)
    work = _Work(network, region, signs, exact, intervals, effort, slopes)
    if ascent is not None and ascent.steps:
        lines = _layer_by_layer(work, before, held, None)
        held = {**(held or {}), **lines}  # these were met with what held before
        if usual is not None:
            usual.update(lines)
    return _layer_by_layer(work, before, held, ascent)


@dataclass(frozen=True, eq=False)
class _Work:
    """What `ranges_inside` has found out: the nodes to bound (whether for their sign alone), those that are exact."""

    network: Network
    region: Region
    signs: Mapping[int, bool]
    exact: frozenset[int]
    intervals: bool
    effort: Effort
    slopes: Slopes | None


def _layer_by_layer(
    work: _Work, by_intervals: Mapping[int, Box], held: Mapping[int, Box] | None, ascent: Ascent | None
) -> dict[int, Box]:
    """Return the ranges of the inputs of all curved nodes, each from those before it; see `ranges_inside`."""
    network, region, signs, intervals, effort = work.network, work.region, work.signs, work.intervals, work.effort
    ranges: dict[int, Box] = {}
    relaxations: dict[int, LinearRelaxation] = {}
    before = dict(by_intervals)
    for index, node in enumerate(network.nodes):
        # interval arithmetic, from the tightest ranges so far
        if index and index not in work.exact and (intervals or index in network.following):
            before[index] = box_of(node, [before[i] for i in node.inputs])
        if held is not None and index in held and index not in work.exact:
            before[index] = meet(before[index], held[index])
        if index in network.range_readers:
            ranges[index] = before[index]
        if index in signs:
            # CROWN first, which settles most signs; then α-CROWN for those still open
            # In front of the first curved node there are no slopes to choose
            for climb in (
                (None, ascent) if ascent is not None and any(i < index for i in network.nonaffine_nodes) else (None,)
            ):
                matters = _sign_is_open(ranges[index]) if signs[index] else None
                if effort.affords(index, _count(network, index, matters), climbing=climb is not None):
                    tighter = crown_box(
                        network, index, matters, region, ranges, relaxations, climb, effort, work.slopes
                    )
                    ranges[index] = meet(ranges[index], tighter)
            before[index] = ranges[index]
        if isinstance(node.operation, Curved):
            # Lines for the range as it is now, which all later layers read
            relaxations[index] = node.operation.relax(ranges[node.inputs[0]])
    return ranges


def _together(images: list[dict[int, Box]]) -> dict[int, Box]:
    """Return the ranges of single images as those of a batch."""
    return {k: (torch.cat([r[k][0] for r in images]), torch.cat([r[k][1] for r in images])) for k in images[0]}


def _of(held: Mapping[int, Box] | None, image: int) -> Mapping[int, Box] | None:
    """Return the ranges of one image; those of a batch of one hold for all."""
    part = slice(image, image + 1)
    return held and {k: (low[part], high[part]) if len(low) > 1 else (low, high) for k, (low, high) in held.items()}


def _anything(box: Box, known: tuple[float, float]) -> Box:
    return torch.full_like(box[0], known[0]), torch.full_like(box[1], known[1])


def _count(network: Network, node: int, matters: Tensor | None) -> int:
    """Number of values of a node that matter; None: all."""
    return torch.Size(network.nodes[node].shape).numel() if matters is None else int(matters.sum())


def _sign_is_open(box: Box) -> Tensor:
    """Values of a node that may have either sign in some image of the batch."""
    return ((box[0] < 0) & (box[1] > 0)).any(0)


def crown_box(
    network: Network,
    node: int,
    matters: Tensor | None,
    region: Region,
    ranges: Mapping[int, Box],
    relaxations: Mapping[int, LinearRelaxation],
    ascent: Ascent | None,
    effort: Effort,
    slopes: Slopes | None,
) -> Box:
    """Return the range of the values of a node that matter, (-inf, inf) elsewhere, in pieces that fit in memory.

    Where signs matter, a value matters in the images in which its own sign is open, whatever the others are.

    Args:
        network: the network.
        node: the node.
        matters: which of its values, by their signs; None: all.
        region: where the images may be.
        ranges: of what is read by curved nodes before it.
        relaxations: of curved nodes before it.
        ascent: how to look for α; None: the usual slopes.
        effort: counts the work.
        slopes: of earlier searches for this image.

    Example:
        >>> from holdfast.numerics.bounds.affine import Matrix
        >>> from holdfast.numerics.bounds.network import Node
        >>> from holdfast.parts.threats.linf import Linf
        >>> matrix = Node(Matrix(torch.tensor([[3.0, -1.0]]).double(), None), (0,), (1,), "3 x - y")
        >>> network = Network((Node(None, (), (2,), "x"), matrix))
        >>> region = Region.around(Linf(0.1), torch.full((1, 2), 0.5), torch.tensor([0.1]).double())
        >>> box = crown_box(network, 1, None, region, {}, {}, None, Effort(network, USUAL), None)
        >>> [round(end.item(), 4) for end in box]
        [0.6, 1.4]
    """
    shape = network.nodes[node].shape
    x = region.x
    low = x.new_full((len(x), *(shape or (1,))), -torch.inf)  # a single number is the only one on an axis, see `units`
    high = -low
    # pieces: as many images, and as many rows of each, as the memory of one backward pass allows
    # Two forms a value, at the node where they have most coefficients
    room = max(1, AT_ONCE.get(x.device.type, AT_ONCE["cuda"]) // (2 * footprint(network, node).widest))
    images = max(1, room // max(1, _count(network, node, matters)))
    for first in range(0, len(x), images):
        batch = slice(first, first + images)
        batched = Problem(network, node, Dense(x), region, ranges, relaxations).part(batch)
        # in this piece fewer signs may be open than in the batch, such as at a smaller radius
        own = None if matters is None else matters & _sign_is_open((ranges[node][0][batch], ranges[node][1][batch]))
        for form, index in units(shape, own, x, room):
            problem = replace(batched, form=form)
            # Slopes are looked for in float32, where any are valid; the bound is made in float64
            parameters = None if ascent is None else _best(problem.single(), ascent, node, index, slopes).to(x.dtype)
            with torch.no_grad():
                ends = problem.bound(parameters).unflatten(1, (-1, 2))
            # The upper end is minus the lower bound of the opposite
            low[(batch, *index)], high[(batch, *index)] = ends[..., 0], -ends[..., 1]
            # Counted for all images of the batch, as the forecast was
            effort.add(node, 2 * len(index[0]) * len(batched.region.x) / len(x), climbing=ascent is not None)
    low, high = low.view(len(x), *shape), high.view(len(x), *shape)
    if matters is None:
        return low, high
    is_open = (ranges[node][0] < 0) & (ranges[node][1] > 0)
    return low.masked_fill(~is_open, -torch.inf), high.masked_fill(~is_open, torch.inf)


def _best(problem: Problem, ascent: Ascent, node: int, index: tuple[Tensor, ...], slopes: Slopes | None) -> AlphaBeta:
    """Return the best slopes that an ascent finds, from those that are known for the same values."""
    # At another radius the best slopes of this one are nearly best; without steps they are taken as they are
    begin = None if slopes is None else slopes.begin(node, index, problem)
    parameters = begin if begin is not None and not ascent.steps else optimise(problem, ascent, begin)[1]
    if slopes is not None:
        slopes.keep(node, problem.network.nodes[node].shape or (1,), index, parameters)
    return parameters
