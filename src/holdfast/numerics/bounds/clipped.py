"""A network whose roundings and clippings are one function each: sums of ReLUs that the reader wrote, joined again."""

from collections import Counter
from dataclasses import replace

from holdfast.numerics.bounds.affine import Clamp, Conv, Matrix, Scale
from holdfast.numerics.bounds.clip import Clip
from holdfast.numerics.bounds.network import Network, Node, keep_needed
from holdfast.numerics.bounds.reader import fold_scale
from holdfast.numerics.bounds.relu import Relu

SAME = 1e-14
"""How far from 1, and from 0, a factor and a shift may be by rounding in float64 that change nothing."""

RELU = Clip(0.0)
"""What a ReLU is."""


def join_clips(network: Network) -> Network:
    """Return the same function with a `Clip` for each ReLU, clamp and rounding, as far as one can stand for several.

    A factor behind a clip moves before it, into the weights there: so levels of integers become multiples of their
    step, in the units of the real numbers that they stand for, and clips that follow each other become one.

    Example:
        >>> import torch
        >>> one = torch.ones(1, dtype=torch.float64)
        >>> nodes = [Node(None, (), (1,), "x"), Node(Scale(4 * one, None), (0,), (1,), "x / step")]
        >>> nodes += [Node(Clip(step=1.0), (1,), (1,), "round"), Node(Scale(one / 4, None), (2,), (1,), "times step")]
        >>> [node.operation for node in join_clips(Network((*nodes, Node(Relu(), (3,), (1,), "relu")))).nodes[1:]]
        [Clip(low=0.0, high=inf, step=0.25)]
    """
    # In the order in which they run, each from the numbers that its inputs have in the new network
    joined = _Joined()
    readers = Counter(i for node in network.nodes for i in node.inputs)
    place: list[int] = []
    for index, node in enumerate(network.nodes):
        inputs = tuple(place[i] for i in node.inputs)
        operation = node.operation
        if isinstance(operation, Relu):
            place.append(joined.clip(RELU, inputs[0], node))
        elif isinstance(operation, Clip):
            place.append(joined.clip(operation, inputs[0], node))
        elif isinstance(operation, Clamp):
            # max(z, 0) - max(z - h, 0); z is what the first ReLU reads
            z = place[network.nodes[node.inputs[0]].inputs[0]]
            place.append(joined.clip(Clip(0.0, node.known[1]), z, node))
        elif isinstance(operation, Scale):
            place.append(joined.scale(operation, inputs[0], node, alone=readers[node.inputs[0]] == 1))
        else:
            place.append(joined.add(replace(node, inputs=inputs)))
        assert joined.nodes[place[index]].shape == node.shape
    return Network(keep_needed(place[-1], joined.nodes), network.normalised)


def with_relus(network: Network) -> Network:
    """Return the same network with a ReLU for each clip that is one: of them it is enough to know the sign.

    Example:
        >>> nodes = Node(None, (), (1,), "x"), Node(Clip(0.0), (0,), (1,), "clip")
        >>> with_relus(Network(nodes)).nodes[1].operation
        Relu()
    """
    nodes = (replace(node, operation=Relu()) if node.operation == RELU else node for node in network.nodes)
    return Network(tuple(nodes), network.normalised)


class _Joined:
    """The nodes of the new network so far."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, node: Node) -> int:
        """Append a node; return its number."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def clip(self, clip: Clip, z: int, node: Node) -> int:
        """Return the number of a clipped value."""
        before = self.nodes[z]
        both = clip.after(before.operation) if isinstance(before.operation, Clip) else None
        if both is not None:
            return self.clip(both, before.inputs[0], node)
        return self.add(Node(clip, (z,), node.shape, node.name))

    def scale(self, scale: Scale, z: int, node: Node, alone: bool = True) -> int:
        """Return the number of factor · value + shift.

        Args:
            scale: factor and shift.
            z: the value's number.
            node: where it stands, for its name and shape.
            alone: whether nothing else reads the value; where others do, they keep their own factors.
        """
        before = self.nodes[z]
        if isinstance(before.operation, Clip):
            moved = _rescale(before.operation, scale, alone)
            if moved is not None:
                return self.clip(moved, self.scale(scale, before.inputs[0], node), node)
        # Into the weights before it; whoever else reads these keeps the node as it was
        folded = fold_scale(before.operation, scale) if isinstance(before.operation, (Conv, Matrix, Scale)) else None
        if isinstance(folded, Scale) and _changes_nothing(folded):
            return before.inputs[0]
        if folded is not None:
            return self.add(Node(folded, before.inputs, node.shape, before.name))
        return z if _changes_nothing(scale) else self.add(Node(scale, (z,), node.shape, node.name))


def _rescale(clip: Clip, scale: Scale, alone: bool) -> Clip | None:
    """Return the clip before which a scale may stand instead of behind it; None where it stays."""
    factor = scale.factor.flatten()[0].item()
    shift = 0.0 if scale.constant is None else scale.constant.flatten()[0].item()
    # One factor and one shift for all values
    if not (scale.factor == factor).all() or (scale.constant is not None and not (scale.constant == shift).all()):
        return None
    # A factor is moved where it makes levels real numbers again
    levels = clip.step and (alone or clip == Clip(step=clip.step))
    return clip.rescale(factor, shift) if factor == 1 or levels else None


def _changes_nothing(scale: Scale) -> bool:
    small = scale.constant is None or bool((scale.constant.abs() <= SAME).all())
    return small and bool(((scale.factor - 1).abs() <= SAME).all())
