"""Activations that an ONNX file rounds to integers (QDQ), as numbers that remain real and have a gradient."""

from typing import Any

import torch
from torch import Tensor, nn

from holdfast.runtime.errors import HoldfastError

DOMAIN = "holdfast"
"""Of the operator that stands for QuantizeLinear; no file has it."""

_ROUNDED = "Rounded"
_KEEPS = {"Reshape", "Flatten", "Transpose", "MaxPool", "Squeeze", "Unsqueeze", "Slice", "Identity"}
"""Operators on integers that mean the same on the real numbers for which these stand."""


class Rounded(nn.Module):
    """y = s (min(max(round(x / s) + z, low), high) - z), half to even; its gradient is that of the clipping alone.

    By the rounding's own gradient, 0 wherever it exists, no attack would get anywhere: what it sees is the gradient
    straight through (Bengio et al. 2013), what it gets is the rounded network.

    Args:
        scale: s, one for all, or one for each index along `axis`.
        zero: z, likewise.
        low: the smallest integer of its kind.
        high: the largest.
        axis: along which they differ.
    """

    def __init__(self, scale: list[float], zero: list[int], low: int, high: int, axis: int):
        super().__init__()
        self.low, self.high, self.axis = low, high, axis
        self.scale: Tensor
        self.zero: Tensor
        self.register_buffer("scale", torch.tensor(scale))
        self.register_buffer("zero", torch.tensor(zero, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Return numbers of which each is one that the file's integers can say."""
        shape = [-1 if place == self.axis % x.ndim else 1 for place in range(x.ndim)] if len(self.scale) > 1 else [1]
        scale, zero = self.scale.view(shape), self.zero.view(shape)
        inside = x.clamp((self.low - zero) * scale, (self.high - zero) * scale)
        rounded = ((x / scale).round() + zero).clamp(self.low, self.high) - zero
        return inside + (rounded * scale - inside).detach()


def spell_out_rounding(model: Any, onnx: Any) -> Any:
    """Return a model with `Rounded` for every QuantizeLinear, and nothing for every DequantizeLinear.

    Raises:
        HoldfastError: scales that are computed, blocks, floats of 8 bits, or a DequantizeLinear of another scale.
    """
    if not any(node.op_type == "QuantizeLinear" for node in model.graph.node):
        return model
    model = onnx.shape_inference.infer_shapes(model)  # nobody infers beyond an operator that is not ONNX's
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    real: dict[str, tuple[Any, ...]] = {}  # names that stood for integers -> scale and zero point
    renamed: dict[str, str] = {}
    nodes = []
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        if node.op_type == "QuantizeLinear":
            real[node.output[0]] = _levels(node, stored, onnx)
            node = _rounded(node, stored, onnx)
        elif node.op_type == "DequantizeLinear":
            if real.get(node.input[0]) != _levels(node, stored, onnx):
                raise HoldfastError(f"ONNX node {node.name!r} reads integers that no QuantizeLinear of its scale made")
            renamed[node.output[0]] = node.input[0]
            continue
        elif node.op_type in _KEEPS and node.input[0] in real:
            real[node.output[0]] = real[node.input[0]]
        nodes.append(node)
    # a DequantizeLinear that was an output keeps its name
    outputs = {value.name for value in graph.output}
    nodes += [onnx.helper.make_node("Identity", [real], [name]) for name, real in renamed.items() if name in outputs]
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    for value in (*graph.value_info, *graph.output):
        if value.name in real:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return model


def rounds(model: Any) -> bool:
    """Whether a rewritten model has rounded activations."""
    return any(node.domain == DOMAIN for node in model.graph.node)


def teach_rounding(onnx2torch: Any) -> None:
    """Let onnx2torch convert `Rounded`."""
    registry = onnx2torch.node_converters.registry
    try:
        registry.get_converter(_ROUNDED, 1, DOMAIN)
    except NotImplementedError:
        registry.add_converter(operation_type=_ROUNDED, version=1, domain=DOMAIN)(_convert)


def _convert(node: Any, graph: Any) -> Any:
    from onnx2torch.utils.common import OperationConverterResult, onnx_mapping_from_node

    return OperationConverterResult(Rounded(**node.attributes), onnx_mapping_from_node(node))


def _levels(node: Any, stored: dict[str, Any], onnx: Any) -> tuple[list[float], list[int], int]:
    """Return the scales and zero points of a node, as many of each, and its axis."""
    axis = {entry.name: entry.i for entry in node.attribute}
    if any(name not in stored for name in node.input[1:] if name) or axis.get("block_size"):
        raise HoldfastError(
            f"ONNX node {node.name!r} computes its scales, or has them block by block; export it otherwise"
        )
    scale, *zero = (onnx.numpy_helper.to_array(stored[name]).reshape(-1) for name in node.input[1:] if name)
    zeros = [int(value) for value in zero[0]] if zero else [0]
    scales = [float(value) for value in scale]
    return scales, zeros * (len(scales) // len(zeros)), axis.get("axis", 1)


def _rounded(node: Any, stored: dict[str, Any], onnx: Any) -> Any:
    scale, zero, axis = _levels(node, stored, onnx)
    kind = stored[node.input[2]].data_type if len(node.input) > 2 and node.input[2] else onnx.TensorProto.UINT8
    name = onnx.TensorProto.DataType.Name(kind)
    bits = {"INT4": 4, "UINT4": 4, "INT8": 8, "UINT8": 8, "INT16": 16, "UINT16": 16}.get(name)
    if bits is None:
        raise HoldfastError(f"ONNX node {node.name!r} rounds to {name}, expected integers of 4, 8 or 16 bits")
    low = 0 if name.startswith("U") else -(2 ** (bits - 1))
    return onnx.helper.make_node(
        _ROUNDED, [node.input[0]], list(node.output), name=node.name, domain=DOMAIN,
        scale=scale, zero=zero, low=low, high=low + 2**bits - 1, axis=axis,
    )  # fmt: skip
