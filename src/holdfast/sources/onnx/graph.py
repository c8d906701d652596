"""A graph of ONNX as plain data: nodes with the attributes that their version of the operator has, and constants."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.sources.onnx.operator import OPERATORS, STANDARD, NotRead

RANDOM = "Random"
"""In the names of operators that draw."""


@dataclass(frozen=True)
class Node:
    """One application of an operator.

    Attributes:
        op: the operator.
        domain: of the operator; "" is ONNX's own.
        name: of the node, unique in the graph.
        version: of the operator's definition.
        inputs: names of tensors; "" where one is left out.
        outputs: names of tensors; "" where one is not read.
        attributes: by name, those that the node leaves out as the definition has them.
    """

    op: str
    domain: str
    name: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    @property
    def reads(self) -> Iterator[str]:
        """The names it reads, those that the graphs inside it read too."""
        yield from filter(None, self.inputs)
        for value in self.attributes.values():
            if isinstance(value, Graph):
                for node in value.nodes:
                    yield from node.reads
                yield from value.outputs

    def __str__(self) -> str:
        return f"{self.op} {self.name!r}"


@dataclass(frozen=True)
class Source:
    """An input of a graph that is no constant.

    Attributes:
        name: of the tensor.
        kind: ONNX's number of its type.
        sizes: of its axes; 0 where one is open.
    """

    name: str
    kind: int
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """What is computed from what.

    Attributes:
        sources: inputs that are no constants.
        outputs: names of tensors.
        nodes: in the order in which they run.
        constants: tensors that are stored, by name; real ones in float32.
        kinds: ONNX's number of the type of each constant and source.
    """

    sources: tuple[Source, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Tensor]
    kinds: Mapping[str, int]

    @property
    def types(self) -> Iterator[int]:
        """ONNX's numbers of the types of what is stored, given and cast to."""
        yield from (self.kinds[name] for name in self.constants if name in self.kinds)
        yield from (source.kind for source in self.sources)
        for node in self.nodes:
            if node.op == "Cast" and isinstance(node.attributes.get("to"), int):
                yield node.attributes["to"]

    def computing(self, name: str) -> "Graph":
        """Return the part of the graph that computes one tensor.

        Raises:
            KeyError: no node gives it.
        """
        wanted, kept = {name}, []
        # From the end: a node counts for what it gives, and what it reads is wanted then
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                kept.append(node)
                wanted.update(node.reads)
        if not kept:
            raise KeyError(name)
        constants = {key: value for key, value in self.constants.items() if key in wanted}
        sources = tuple(source for source in self.sources if source.name in wanted)
        return replace(self, sources=sources, outputs=(name,), nodes=tuple(reversed(kept)), constants=constants)


def read_graph(model: Any, onnx: Any) -> Graph:
    """Return the graph of a model.

    Args:
        model: an onnx ModelProto, with functions written out, see `inline_functions`.
        onnx: the package.

    Raises:
        NotRead: an operator set that the package does not know yet, tensors that torch does not have.
    """
    versions = _versions(model)
    if versions.get(STANDARD, 1) > onnx.defs.onnx_opset_version():
        raise NotRead(
            f"opset {versions[STANDARD]}: the onnx package that is installed knows {onnx.defs.onnx_opset_version()} at "
            "most; export with an older one, or upgrade onnx"
        )
    return _Reading(versions, onnx).graph(model.graph)


def _versions(model: Any) -> dict[str, int]:
    return {STANDARD if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}


def inline_functions(model: Any, onnx: Any) -> Any:
    """Return a model with functions written out, and operators that are not computed here but defined by others."""
    model = onnx.inliner.inline_local_functions(model) if model.functions else model
    expand, versions = getattr(onnx.inliner, "inline_selected_functions", None), _versions(model)
    unknown = {
        (node.domain, node.op_type) for node in model.graph.node if (_domain(node), node.op_type) not in OPERATORS
    }
    defined = [key for key in unknown if _has_body(key, versions, onnx)]
    if expand is None or not defined:
        return model
    try:
        return expand(model, defined, inline_schema_functions=True)
    except Exception:  # of a version that cannot; the operator is then refused by name
        return model


def _domain(node: Any) -> str:
    return STANDARD if node.domain == "ai.onnx" else node.domain


def _has_body(key: tuple[str, str], versions: Mapping[str, int], onnx: Any) -> bool:
    domain, op = key
    try:
        schema = onnx.defs.get_schema(op, versions.get(domain, 1), domain)
    except Exception:  # onnx's own error for what it does not know
        return False
    return schema.has_function or schema.has_context_dependent_function


class _Reading:
    """Turns protocol buffers into plain data."""

    def __init__(self, versions: Mapping[str, int], onnx: Any):
        self._versions, self._onnx = versions, onnx
        self._names: dict[str, int] = {}

    def graph(self, proto: Any) -> Graph:
        constants = {tensor.name: self.tensor(tensor) for tensor in proto.initializer}
        kinds = {tensor.name: tensor.data_type for tensor in proto.initializer}
        if proto.sparse_initializer:
            raise NotRead("weights that are stored as sparse tensors")
        sources = []
        # Old files list weights among the inputs
        for value in proto.input:
            if value.name not in constants:
                kind = value.type.tensor_type
                sources.append(Source(value.name, kind.elem_type, tuple(d.dim_value for d in kind.shape.dim)))
                kinds[value.name] = kind.elem_type
        nodes = []
        for entry in proto.node:
            node = self.node(entry)
            stored = node.attributes.get("value")
            # A node that stores a tensor is one constant more
            if node.op == "Constant" and node.domain == STANDARD and isinstance(stored, Tensor):
                constants[node.outputs[0]] = stored
                kinds[node.outputs[0]] = next(a.t.data_type for a in entry.attribute if a.name == "value")
            else:
                nodes.append(node)
        outputs = tuple(value.name for value in proto.output)
        return Graph(tuple(sources), outputs, tuple(nodes), constants, kinds)

    def node(self, proto: Any) -> Node:
        domain = _domain(proto)
        version, attributes = self._versions.get(domain, 1), {}
        # The definition that holds at this version, with its own defaults
        try:
            schema = self._onnx.defs.get_schema(proto.op_type, version, domain)
        except Exception:  # of a domain that is not ONNX's
            schema = None
        if schema is not None:
            # Since when it has this meaning, which operators go by
            version = schema.since_version
            for name, attribute in schema.attributes.items():
                if attribute.default_value is not None and attribute.default_value.type:
                    attributes[name] = self.value(attribute.default_value)
        # What the node says, over defaults
        attributes |= {entry.name: self.value(entry) for entry in proto.attribute}
        # Names may be missing or twice; errors need one for each
        name = proto.name or proto.op_type
        number = self._names[name] = self._names.get(name, -1) + 1
        name = f"{name}_{number}" if number else name
        return Node(proto.op_type, domain, name, version, tuple(proto.input), tuple(proto.output), attributes)

    def value(self, entry: Any) -> Any:
        """Return an attribute as plain data."""
        value = self._onnx.helper.get_attribute_value(entry)
        kinds = self._onnx.AttributeProto
        match entry.type:
            case kinds.TENSOR:
                return self.tensor(value)
            case kinds.GRAPH:
                return self.graph(value)
            case kinds.STRING:
                return value.decode("utf-8", "replace")
            case kinds.STRINGS:
                return [text.decode("utf-8", "replace") for text in value]
            case kinds.INTS | kinds.FLOATS:
                return list(value)
            case kinds.INT | kinds.FLOAT:
                return value
        return entry  # refused where an operator reads it

    def tensor(self, proto: Any) -> Tensor:
        """Return a stored tensor; real numbers in float32."""
        if proto.data_type == self._onnx.TensorProto.STRING:
            raise NotRead(f"the tensor {proto.name!r} of strings")
        return as_tensor(self._onnx.numpy_helper.to_array(proto))


def as_tensor(values: np.ndarray) -> Tensor:
    """Return numbers as torch has them: real ones in float32, unsigned ones beyond 8 bits in the next larger type.

    Raises:
        NotRead: complex numbers.
    """
    kind = values.dtype
    if kind == np.bool_ or kind.name in ("uint8", "int8", "int16", "int32", "int64", "float32"):
        return torch.tensor(values)
    # 4 and 2 bits have no type in torch
    if kind.name in ("int4", "uint4", "int2", "uint2"):
        return torch.tensor(values.astype(np.int16 if kind.name.startswith("u") else np.int8))
    if kind.kind == "u":
        # torch hardly computes with unsigned numbers: the next larger signed type holds them
        return torch.tensor(values.astype(np.int32 if kind.itemsize < 4 else np.int64))
    if kind.kind == "c":
        raise NotRead("complex numbers")
    return torch.tensor(values.astype(np.float32))
