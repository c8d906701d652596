"""Two networks step by step: which values of the one belong to which of the other."""

from collections.abc import Mapping

import torch

from holdfast.numerics.bounds.affine import Add, Affine, Concat, Conv, Matrices, Matrix, Scale
from holdfast.numerics.bounds.clip import Clip
from holdfast.numerics.bounds.max_pool import MaxPool
from holdfast.numerics.bounds.network import Network, Node
from holdfast.numerics.bounds.relaxation import Curved
from holdfast.runtime.errors import NotCertified

Pair = tuple[int, int]
"""A node of the first network and one of the second."""


def match(first: Network, second: Network) -> Mapping[Pair, tuple[Pair, ...]]:
    """Return the nodes that belong together, in an order in which they can be computed, each with what it is made of.

    Backwards from the representations. What one side alone does to each value, a rounding, a clipping or a factor, the
    other does by doing nothing.

    Args:
        first: the one network, with clips instead of ReLUs, see `join_clips`.
        second: the other one, likewise.

    Raises:
        NotCertified: the networks are not made of the same operations, or of some whose difference is not bounded.

    Example:
        >>> image, relu = Node(None, (), (1,), "x"), Node(Clip(0.0), (0,), (1,), "relu")
        >>> match(Network((image,)), Network((image, relu)))  # beside the ReLU nothing is done
        {(0, 0): (), (0, 1): ((0, 0),)}
    """
    # A list of what is to do instead of recursion: networks may be deeper than Python's stack
    matched: dict[Pair, tuple[Pair, ...]] = {}
    todo: list[Pair] = [(len(first.nodes) - 1, len(second.nodes) - 1)]
    while todo:
        pair = todo.pop()
        if pair not in matched:
            matched[pair] = _inputs(pair, first, second)
            todo += matched[pair]
    # What a pair is made of is earlier on one side at least, and later on none
    return {pair: matched[pair] for pair in sorted(matched)}


def _inputs(pair: Pair, first: Network, second: Network) -> tuple[Pair, ...]:
    """Return the pairs of which a pair is made."""
    (i, j), (one, other) = pair, (first.nodes[pair[0]], second.nodes[pair[1]])
    if one.shape == other.shape and _same_step(one, other):
        return tuple(zip(one.inputs, other.inputs, strict=True))
    # One side alone does something here: roundings first, then factors
    for alone in (Clip, Scale):
        if isinstance(other.operation, alone):
            return ((i, other.inputs[0]),)
        if isinstance(one.operation, alone):
            return ((one.inputs[0], j),)
    raise NotCertified(
        "not certified: expected two builds of one network, of the same layers, none of which multiplies values of the "
        f"network (attention, LayerNorm), got {_say(one)} in the one where the other has {_say(other)}; each by itself "
        "can be certified"
    )


def _say(node: Node) -> str:
    kind = "the image" if node.operation is None else type(node.operation).__name__
    return f"{kind} {list(node.shape)} ({node.name})"


def _same_step(one: Node, other: Node) -> bool:
    """Whether both sides do the same here, but for weights, limits and roundings."""
    a, b = one.operation, other.operation
    if type(a) is not type(b) or len(one.inputs) != len(other.inputs):
        return False
    if isinstance(a, Conv) and isinstance(b, Conv):
        places = [(conv.inner, conv.stride, conv.padding, conv.dilation, conv.groups) for conv in (a, b)]
        return places[0] == places[1] and a.weight.shape == b.weight.shape
    if isinstance(a, (Matrix, Matrices)) and isinstance(b, (Matrix, Matrices)):
        return a.weight.shape == b.weight.shape and getattr(a, "left", None) == getattr(b, "left", None)
    if isinstance(a, Add) and isinstance(b, Add):
        return a.sign == b.sign
    if isinstance(a, Concat) and isinstance(b, Concat):
        return (a.axis, a.sizes) == (b.axis, b.sizes)
    if isinstance(a, (Scale, Clip)) or a is None:
        return True
    if isinstance(a, Affine) and isinstance(b, Affine):
        # Any other map is one that has no weights: it is the same where it does the same to numbers that all differ
        inner = getattr(a, "inner", one.shape)
        numbers = torch.rand(1, *inner, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        return getattr(b, "inner", one.shape) == inner and torch.equal(a(numbers), b(numbers))
    return isinstance(a, (Curved, MaxPool)) and a == b
