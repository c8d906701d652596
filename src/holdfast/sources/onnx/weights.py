"""Weights of a network that was read from a file, put back into a copy of the file."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from holdfast.sources.onnx.file import forget_unread


def with_weights(model: Any, weights: Mapping[str, Tensor], onnx: Any) -> Any:
    """Return a copy of a model in which some tensors are these numbers, whatever computed them before.

    Args:
        model: the onnx ModelProto that the network was read from, with functions written out.
        weights: by their names in the file.
        onnx: the package.
    """
    written = onnx.ModelProto()
    written.CopyFrom(model)
    graph = written.graph
    kinds = {tensor.name: tensor.data_type for tensor in graph.initializer}
    # From behind, so that places stay true
    for place in reversed([place for place, tensor in enumerate(graph.initializer) if tensor.name in weights]):
        del graph.initializer[place]
    for name, value in weights.items():
        array = value.detach().cpu().numpy()
        # In the type of the file, which may be half
        if name in kinds:
            array = array.astype(onnx.helper.tensor_dtype_to_np_dtype(kinds[name]))
        graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    kept = [
        onnx.NodeProto.FromString(node.SerializeToString())
        for node in graph.node
        # A node all of whose outputs are weights now has nothing to compute
        if not (set(node.output) - {""}).issubset(weights)
    ]
    graph.ClearField("node")
    graph.node.extend(_prune_nodes(kept, {value.name for value in graph.output}))
    forget_unread(graph)
    return written


def _prune_nodes(nodes: list[Any], outputs: set[str]) -> list[Any]:
    """Return the nodes that outputs depend on; those that computed what is a weight now are not among them."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(node.input)
            wanted.update(name for entry in node.attribute for inner in entry.g.node for name in inner.input)
    return kept[::-1]
