"""Read an ONNX graph backward from a tensor: what computes it; and the linear head at its end."""

from collections.abc import Iterator
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
    output = output or outputs[0]
    tensors = [tensor for node in model.graph.node for tensor in node.output if tensor]
    if output not in tensors:
        raise unknown(f"tensor of {name}", output, tensors)
    typed = onnx.shape_inference.infer_shapes(model).graph
    values = {value.name: value for value in (*typed.value_info, *typed.output)}
    result = onnx.ModelProto()
    result.CopyFrom(model)
    # backward through the nodes, which stand in the order in which they run
    wanted, kept = {output}, []
    for node in reversed(result.graph.node):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(_reads(node))
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(kept)]
    del result.graph.node[:], result.graph.output[:]
    result.graph.node.extend(nodes)
    untyped = onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
    result.graph.output.append(values.get(output, untyped))
    stored = [tensor for tensor in result.graph.initializer if tensor.name in wanted]
    del result.graph.initializer[:]
    result.graph.initializer.extend(stored)
    return result


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
    # an addition of a constant, or none
    last, bias = node, None
    if node is not None and node.op_type == "Add":
        added = [name for name in node.input if name in stored]
        node = next((makers[name] for name in node.input if name in makers), None)
        bias = weights(added[0]) if added else None
    if node is not None and node.op_type in ("MatMul", "Gemm") and (matrix := weights(node.input[1])) is not None:
        options = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        if node.op_type == "Gemm":
            bias = weights(node.input[2]) if len(node.input) > 2 else torch.zeros(1)
            bias = None if bias is None else options.get("beta", 1.0) * bias
        elif last is node:
            bias = torch.zeros(1)
        turned = matrix if options.get("transB") else matrix.T
        if bias is not None and matrix.ndim == 2 and bias.numel() in (1, len(turned)) and not options.get("transA"):
            head = options.get("alpha", 1.0) * turned
            return FileHead(head.contiguous(), bias.reshape(-1).expand(len(head)).contiguous(), node.input[0])
    raise HoldfastError(
        f"{path!r}: expected a linear layer with weights of its own (Gemm, or MatMul and Add) at its end, got "
        f"{last.op_type if last is not None else 'none'}; give the head as a safetensors file"
    )
