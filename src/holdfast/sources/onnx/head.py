"""The linear head at the end of an ONNX file: Gemm, or MatMul with or without Add, in front of any softmax."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.runtime.errors import Unsupported
from holdfast.sources.onnx.file import load, package
from holdfast.sources.onnx.graph import Node, inline_functions, read_graph
from holdfast.sources.onnx.operator import NotRead
from holdfast.sources.onnx.specialise import evaluate_constants

BEHIND = {"Softmax", "LogSoftmax", "Identity"}
"""Operators after a head that leave the order of classes as it is."""


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
    """Return the last linear layer of an ONNX file.

    Raises:
        HoldfastError: no such file, or one whose first output does not end in a linear layer with weights of its own.
    """
    onnx = package(path)
    try:
        graph = read_graph(inline_functions(load(path, onnx), onnx), onnx)
    except NotRead as error:
        raise Unsupported(f"{path!r}: {error}") from error
    # Weights may be computed, such as transposed, from what is stored
    known = {name: value for name, value in evaluate_constants(graph).items() if isinstance(value, Tensor)}
    # What is known needs no node
    makers = {name: node for node in graph.nodes for name in node.outputs if name not in known}
    node = makers.get(graph.outputs[0])
    while node is not None and node.op in BEHIND:
        node = makers.get(node.inputs[0])
    last, bias = node, torch.zeros(1)
    # a constant that is added, and the product before it
    if node is not None and node.op == "Add":
        added = [known[name] for name in node.inputs if name in known]
        node = next((makers[name] for name in node.inputs if name in makers), None) if added else None
        bias = added[0] if added else bias
    head = _product(node, known) if node is not None else None
    if node is not None and head is not None:
        matrix, own = head
        # Gemm's own bias and an Add may both be there
        bias = (own + bias).reshape(-1)
        # A bias for each class, or one for all
        if len(bias) in (1, len(matrix)):
            return FileHead(matrix, bias.expand(len(matrix)).contiguous(), node.inputs[0])
    raise Unsupported(
        f"{path!r}: expected a linear layer with weights of its own (Gemm, or MatMul and Add) at its end, got "
        f"{last.op if last is not None else 'none'}; give the head as a safetensors file"
    )


def _product(node: Node, known: Mapping[str, Tensor]) -> tuple[Tensor, Tensor] | None:
    """Return the matrix [C, D] of a MatMul or Gemm and its own bias; None where they are not known."""
    if node.op not in ("MatMul", "Gemm") or node.inputs[1] not in known:
        return None
    matrix, bias = known[node.inputs[1]], torch.zeros(1)
    if len(node.inputs) > 2 and node.inputs[2]:
        if node.inputs[2] not in known:
            return None
        bias = known[node.inputs[2]]
    if matrix.ndim != 2 or node.attributes.get("transA"):
        return None
    # [D, C] as stored to [C, D]
    turned = matrix if node.attributes.get("transB") else matrix.T
    return (node.attributes.get("alpha", 1.0) * turned).contiguous(), node.attributes.get("beta", 1.0) * bias
