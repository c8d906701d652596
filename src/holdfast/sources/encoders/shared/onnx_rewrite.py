"""Rewrite an ONNX graph for onnx2torch, without changing what it computes.

onnx2torch knows the operators of opset 17; torch exports 18 and later. Most operators differ between these only in
the number types they accept. Where the signature differs, the node is rewritten, or refused. Operators of sets so old
that it does not know them are lifted by onnx's own converter.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.runtime.errors import HoldfastError, first_line
from holdfast.sources.encoders.shared.onnx_fold import fold_constants
from holdfast.sources.encoders.shared.onnx_mend import mend
from holdfast.sources.encoders.shared.onnx_quantised import spell_out_rounding

_OPSET = 17
_HARMLESS = {"num_outputs", "saturate", "noop_with_empty_axes"}  # implied by outputs; of float8; handled with the axes


def rewritten(model: Any, onnx: Any, converter: Callable[[str, int, str], object]) -> Any:
    """Return a copy of a model that onnx2torch can read, in opset 17 or older, its constants computed.

    Args:
        model: an onnx ModelProto.
        onnx: the package.
        converter: of onnx2torch, for an operator, its version and its domain; raises where there is none.

    Raises:
        HoldfastError: a node that means something opset 17 cannot say, or that cannot be lifted to it.
    """
    model = _lifted(onnx.inliner.inline_local_functions(model), onnx, converter)
    fold_constants(model, onnx)
    mend(model, onnx)
    _refuse_integers(model.graph)
    model = spell_out_rounding(model, onnx)
    graph = model.graph
    _spell_out_gelu(graph, onnx)
    constants = dict(_constants(graph, onnx))
    versions = [entry for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    for node in graph.node:
        if node.op_type == "Reshape":
            _forbid_zeros(node, constants)
        if versions[0].version > _OPSET and node.domain in ("", "ai.onnx"):
            _lower(node, constants, onnx)
    versions[0].version = min(versions[0].version, _OPSET)
    return onnx.shape_inference.infer_shapes(model, data_prop=True)  # onnx2torch reads the widths of layer norms there


def _lifted(model: Any, onnx: Any, converter: Callable[[str, int, str], object]) -> Any:
    """Return the model in opset 17 where it is older and holds an operator that onnx2torch does not know."""
    version = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if version >= _OPSET or all(_converts(node, version, converter) for node in model.graph.node):
        return model
    try:
        return onnx.version_converter.convert_version(model, _OPSET)
    except Exception as error:  # errors of its own
        raise HoldfastError(
            f"opset {version} has operators that onnx2torch does not know, and onnx cannot lift them to opset "
            f"{_OPSET} ({first_line(error)}): export with opset 13 or later"
        ) from error


def _converts(node: Any, version: int, converter: Callable[[str, int, str], object]) -> bool:
    if node.op_type == "Pad" and any(entry.name == "value" and entry.f for entry in node.attribute):
        return False  # it knows the operator, and pads by 0
    try:
        converter(node.op_type, version, node.domain)
    except NotImplementedError:
        return False
    return True


def _refuse_integers(graph: Any) -> None:
    """Refuse operators that compute in integers.

    Raises:
        HoldfastError: one of these.
    """
    for node in graph.node:
        if node.op_type.startswith(("QLinear", "QGemm", "DynamicQuantize")) or node.op_type.endswith("Integer"):
            raise HoldfastError(
                f"{node.op_type} computes in integers, which have no gradient: give the file that was quantised, or "
                "one quantised with quant_format=QDQ"
            )


def _spell_out_gelu(graph: Any, onnx: Any) -> None:
    """Replace Gelu (opset 20) by what it means: x (1 + erf(x / sqrt 2)) / 2."""
    nodes = []
    for i, node in enumerate(graph.node):
        if node.op_type != "Gelu" or any(a.name == "approximate" and a.s != b"none" for a in node.attribute):
            nodes.append(node)
            continue
        x, root, unit, half = node.input[0], "gelu_root", "gelu_one", "gelu_half"
        scaled, erf, sum_, product = (f"gelu_{i}_{step}" for step in ("scaled", "erf", "sum", "product"))
        make = onnx.helper.make_node
        nodes += [
            make("Mul", [x, root], [scaled], name=scaled), make("Erf", [scaled], [erf], name=erf),
            make("Add", [erf, unit], [sum_], name=sum_), make("Mul", [x, sum_], [product], name=product),
            make("Mul", [product, half], list(node.output), name=node.name),
        ]  # fmt: skip
    if len(nodes) > len(graph.node):
        for name, value in (("gelu_root", math.sqrt(0.5)), ("gelu_one", 1.0), ("gelu_half", 0.5)):
            graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [], [value]))
        del graph.node[:]
        graph.node.extend(nodes)


def _constants(graph: Any, onnx: Any) -> Iterator[tuple[str, list[int]]]:
    """Yield the small integer constants of a graph: shapes and axes."""
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) <= 1:
            yield tensor.name, onnx.numpy_helper.to_array(tensor).reshape(-1).tolist()


def _forbid_zeros(node: Any, constants: dict[str, list[int]]) -> None:
    """Drop allowzero=1, which matters only for shapes with a zero: empty tensors, which no encoder makes."""
    if any(a.name == "allowzero" and a.i for a in node.attribute) and 0 in constants.get(node.input[1], ()):
        raise HoldfastError(f"ONNX node {node.name!r} reshapes to an empty tensor; onnx2torch cannot")
    _drop(node, {"allowzero"})


def _lower(node: Any, constants: dict[str, list[int]], onnx: Any) -> None:
    try:
        schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=_OPSET)
    except onnx.defs.SchemaError as error:
        raise HoldfastError(
            f"onnx2torch does not know the operator {node.op_type}: export with a lower opset"
        ) from error
    if node.op_type.startswith("Reduce") and len(node.input) > schema.max_input:  # axes moved from attribute to input
        axes = constants.get(node.input[1])
        if not axes:
            raise HoldfastError(f"ONNX node {node.name!r} ({node.op_type}) computes its axes; onnx2torch cannot")
        del node.input[1:]
        node.attribute.append(onnx.helper.make_attribute("axes", axes))
    attributes = set(schema.attributes)
    _drop(node, _HARMLESS - attributes)
    if len(node.input) > schema.max_input or any(attribute.name not in attributes for attribute in node.attribute):
        raise HoldfastError(
            f"ONNX node {node.name!r} ({node.op_type}) is newer than opset {_OPSET}: export with that one"
        )


def _drop(node: Any, names: set[str]) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name not in names]
    del node.attribute[:]
    node.attribute.extend(kept)
