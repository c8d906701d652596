"""Weights of a converted ONNX graph: parameters while it is trained, initialisers again when it is written."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn

from holdfast.runtime.errors import HoldfastError
from holdfast.sources.encoders.shared.onnx_graph import forget_unread

LAYERS = frozenset(("Add", "Conv", "ConvTranspose", "Gemm", "MatMul", "Mul", "PRelu", "InstanceNormalization"))
"""Operators whose constants are weights, where onnx2torch makes no layer of them."""

LARGE = 1e4
"""No weight is as large; what is, hides values, as the mask of an attention does."""

INITIALISERS = "initializers"
"""The module in which onnx2torch keeps the constants of which it makes no layer."""

TRAINS = "trains"
"""Key of a graph's `meta`: its weights are parameters."""


def parametrised(graph: fx.GraphModule, model: Any) -> fx.GraphModule:
    """Return the graph with every weight as a parameter: what it multiplies or adds, more than one number.

    onnx2torch keeps constants of `MatMul`, `Add` and the like as buffers, which no optimiser reads.

    Args:
        graph: what onnx2torch made of `model`; changed in place.
        model: an onnx ModelProto.
    """
    operators = {name: node.op_type for name, node in _named(model)}
    constants: Any = getattr(graph, INITIALISERS, nn.Module())
    for node in graph.graph.nodes:
        _, _, name = str(node.target).partition(f"{INITIALISERS}.")
        if node.op != "get_attr" or name not in constants._buffers:
            continue
        value = constants.get_buffer(name)
        users = {operators.get(str(user.target)) for user in node.users}
        if users & LAYERS and value.is_floating_point() and value.numel() > 1 and bool((value.abs() < LARGE).all()):
            del constants._buffers[name]
            constants.register_parameter(name, nn.Parameter(value))
    graph.meta[TRAINS] = True
    return graph


def trains(network: nn.Module) -> bool:
    """Whether a converted graph has its weights as parameters."""
    return bool(getattr(network, "meta", {}).get(TRAINS))


def with_weights_of(graph: fx.GraphModule, before: fx.GraphModule, model: Any, onnx: Any) -> Any:
    """Return a copy of a model with the weights of a graph that was converted from it and trained since.

    Every node gets initialisers of its own: a weight that several read in the file is learned by each of them apart.

    Args:
        graph: the trained graph.
        before: the graph as it was converted.
        model: the onnx ModelProto that was converted.
        onnx: the package.

    Raises:
        HoldfastError: a weight that is not found in the file, whether it has changed yet or not.
    """
    written = onnx.ModelProto()
    written.CopyFrom(model)
    nodes = dict(_named(written))
    stored = {tensor.name: tensor for tensor in written.graph.initializer}
    old, new, weights = before.state_dict(), graph.state_dict(), dict(before.named_parameters())
    taken: set[tuple[str, int]] = set()  # inputs of nodes that are written already
    for key, operator in _owners(before):
        if key not in weights and torch.equal(old[key], new[key]):
            continue
        for place, name in enumerate(nodes[operator].input):
            value = torch.tensor(onnx.numpy_helper.to_array(stored[name])) if name in stored else None
            if value is None or (operator, place) in taken or (turned := _turned(value, old[key])) is None:
                continue
            taken.add((operator, place))
            own = f"{operator}:{key}"
            array = (new[key].mT if turned else new[key]).to(value.dtype).contiguous().numpy()
            written.graph.initializer.append(onnx.numpy_helper.from_array(array, own))
            nodes[operator].input[place] = own
            break
        else:
            raise HoldfastError(
                f"cannot be written as ONNX: {key} is no tensor of the file, but scaled or computed from several; "
                "export the network with plain weights"
            )
    forget_unread(written.graph)
    return written


def _named(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the nodes of a graph by the names that onnx2torch gives to their modules."""
    counts: dict[str, int] = {}
    for node in model.graph.node:
        name = f"{node.domain}/{node.name.replace('.', '/') or node.op_type}".lstrip("/")
        number = counts[name] = counts.get(name, -1) + 1
        yield (f"{name}_{number}" if number else name), node


def _owners(graph: fx.GraphModule) -> Iterator[tuple[str, str]]:
    """Yield the tensors of a graph, each with the operation that reads it, in the order of its inputs."""
    read: dict[str, str] = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            read[str(node.target)] = str(next(iter(node.users)).target)
    for key, value in graph.state_dict().items():
        owner = read.get(key) if key.startswith(f"{INITIALISERS}.") else key.partition(".")[0]
        if owner is not None and value.is_floating_point():
            yield key, owner


def _turned(stored: Tensor, value: Tensor) -> bool | None:
    """Whether a tensor of a file is a weight transposed; None where it is another one."""
    if stored.shape == value.shape and torch.equal(stored.to(value), value):
        return False
    if stored.ndim == 2 and stored.mT.shape == value.shape and torch.equal(stored.mT.to(value), value):
        return True
    return None
