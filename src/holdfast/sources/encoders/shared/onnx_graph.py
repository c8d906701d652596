"""Read an ONNX graph backward from a tensor: what computes it; and the linear head at its end."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from holdfast.runtime.errors import HoldfastError, first_line, unknown
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.onnx_fold import fold_constants

_BEHIND = {"Softmax", "LogSoftmax", "Identity"}
"""Operators after a head that leave the order of classes as it is."""


def cut(model: Any, output: str | None, name: str, onnx: Any) -> Any:
    """Return a copy of a model that computes one tensor and nothing that comes after it.

    Args:
        model: an onnx ModelProto.
        output: any tensor that its nodes compute; None: its one output.
        name: of the file, for errors.
        onnx: the package.

    Raises:
        HoldfastError: several outputs to choose from, or a name that no tensor has.
    """
    outputs = [value.name for value in model.graph.output]
    if output is None and len(outputs) != 1:
        raise HoldfastError(f"{name!r} has several outputs; give ?output= one of: {', '.join(outputs)}")
    chosen = outputs[0] if output is None else output
    tensors = [tensor for node in model.graph.node for tensor in node.output if tensor]
    if chosen not in tensors:
        raise unknown(f"tensor of {name}", chosen, tensors)
    typed = onnx.shape_inference.infer_shapes(model).graph
    values = {value.name: value for value in (*typed.value_info, *typed.output)}
    result = onnx.ModelProto()
    result.CopyFrom(model)
    # backward through the nodes, which stand in the order in which they run
    wanted, kept = {chosen}, []
    for node in reversed(result.graph.node):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(_reads(node))
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(kept)]
    del result.graph.node[:], result.graph.output[:]
    result.graph.node.extend(nodes)
    untyped = onnx.helper.make_tensor_value_info(chosen, onnx.TensorProto.FLOAT, None)
    result.graph.output.append(values.get(chosen, untyped))
    forget_unread(result.graph)
    return result


def forget_unread(graph: Any) -> None:
    """Drop weights that nothing reads, among the inputs too, where old files list them; in place.

    Args:
        graph: an onnx GraphProto.
    """
    read = {name for node in graph.node for name in _reads(node)} | {value.name for value in graph.output}
    unread = {tensor.name for tensor in graph.initializer} - read
    for entries in (graph.initializer, graph.input):
        for place in reversed([place for place, entry in enumerate(entries) if entry.name in unread]):
            del entries[place]


def sized(model: Any, shape: tuple[int, int, int]) -> Any:
    """Return the model for images of one size, by which operators may pad; in place.

    Args:
        model: an onnx ModelProto with one input that is no weight, [batch, channel, height, width].
        shape: (channels, height, width) of an image.
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    value = next(value for value in model.graph.input if value.name not in weights)
    dims = value.type.tensor_type.shape.dim[1:]
    if tuple(dim.dim_value for dim in dims) != shape:
        for dim, side in zip(dims, shape, strict=True):
            dim.dim_value = side
        del model.graph.value_info[:]  # sizes of what comes after it, as they were
    return model


def _reads(node: Any) -> Iterator[str]:
    """Yield the names that a node reads, those of the graphs in it too."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _reads(inner)


class FileHead(NamedTuple):
    """The linear head at the end of an ONNX file.

    Attributes:
        weights: [C, D].
        bias: [C].
        reads: the name of the tensor that it maps to logits.
    """

    weights: Tensor
    bias: Tensor
    reads: str


def head_of_file(path: str) -> FileHead:
    """Return the last linear layer of an ONNX file: Gemm, or MatMul with or without Add, in front of any softmax.

    Raises:
        HoldfastError: no such file, or one whose first output does not end in a linear layer with weights of its own.
    """
    onnx = optional("onnx", "onnx", "onnx", path)
    optional("onnx.reference", "onnx", "onnx", path)
    try:
        model = onnx.load(path)
    except Exception as error:  # protobuf and the file system raise errors of their own
        raise HoldfastError(f"{path!r} is not a readable ONNX file: {first_line(error)}") from error
    fold_constants(model, onnx)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output}

    def weights(name: str) -> Tensor | None:
        return torch.tensor(onnx.numpy_helper.to_array(stored[name])) if name in stored else None

    node = makers.get(model.graph.output[0].name)
    while node is not None and node.op_type in _BEHIND:
        node = makers.get(node.input[0])
    # a constant that is added, and the product before it
    last, bias = node, torch.zeros(1)
    if node is not None and node.op_type == "Add":
        added = [name for name in node.input if name in stored]
        bias = weights(added[0]) if added else None
        node = next((makers[name] for name in node.input if name in makers), None)
    head = _product(node, weights, onnx) if node is not None and bias is not None else None
    if node is not None and head is not None and bias is not None:
        matrix, own = head
        bias = (own + bias).reshape(-1)
        if len(bias) in (1, len(matrix)):
            return FileHead(matrix, bias.expand(len(matrix)).contiguous(), node.input[0])
    raise HoldfastError(
        f"{path!r}: expected a linear layer with weights of its own (Gemm, or MatMul and Add) at its end, got "
        f"{last.op_type if last is not None else 'none'}; give the head as a safetensors file"
    )


def _product(node: Any, weights: Callable[[str], Tensor | None], onnx: Any) -> tuple[Tensor, Tensor] | None:
    """Return the matrix [C, D] of a MatMul or Gemm and its own bias; None where they are not stored."""
    if node.op_type not in ("MatMul", "Gemm"):
        return None
    options = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
    matrix, bias = weights(node.input[1]), torch.zeros(1)
    if len(node.input) > 2:
        bias = weights(node.input[2])
    if matrix is None or bias is None or matrix.ndim != 2 or options.get("transA"):
        return None
    turned = matrix if options.get("transB") else matrix.T
    return (options.get("alpha", 1.0) * turned).contiguous(), options.get("beta", 1.0) * bias
