"""Work out, before any image is seen, all of a graph that depends on no pixel; what is left are the steps of a pass.

A value is known (weights, and what is computed from them), it grows with the number of images (a shape), or it depends
on pixels. The latter two are followed on tensors without values, for two numbers of images; so what a shape makes of
the batch is found as a + b · images, and a pass computes no shapes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeGuard

import torch
from torch import Tensor

from holdfast.runtime.errors import first_line
from holdfast.sources.onnx import operators as operators
from holdfast.sources.onnx.fold import fold
from holdfast.sources.onnx.graph import RANDOM, Graph, Node
from holdfast.sources.onnx.operator import OPERATORS, STANDARD, NotRead, Operator
from holdfast.sources.onnx.steps import Argument, Growing, Known, Live, Specialised, Step, Value

BATCHES = (2, 3)
"""Numbers of images that tensors without values are followed for."""

SMALL = 4096
"""Most whole numbers of a tensor that is worked out for each number of images."""

LARGE = 2**16
"""A result of this size is not stored in place of what it is made from, where that is smaller."""

MOST = 2**30
"""Most numbers of a tensor."""

ENLARGING = ("Expand", "Tile", "ConstantOfShape", "Range", "EyeLike", "OneHot")

MOVING = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Flatten", "Slice", "Gather", "Concat")
"""Operators whose result has the type of their first input."""

DRAWS = ("Bernoulli", "Multinomial")


def specialise(
    graph: Graph, shape: tuple[int, ...], *, batch: int = 0, straight: bool = False, kind: torch.dtype = torch.float32
) -> Specialised:
    """Return what a pass of images computes.

    Args:
        graph: with one source and one output.
        shape: of an image as the file takes it, without the batch.
        batch: how many images the file takes at a time; 0: any number.
        straight: see `Specialised`.
        kind: of the images.

    Raises:
        NotRead: an operator or an attribute that is not computed here, sizes that depend on pixels, a node that fails.
    """
    return _Specialiser(graph, shape, batch, straight, kind).run()


def evaluate_constants(graph: Graph) -> dict[str, Any]:
    """Return all values of a graph that depend on no input, by name, as far as they can be worked out."""
    knowing = _Specialiser(graph, (), 0, False, torch.float32)
    for node in graph.nodes:
        if all(isinstance(knowing.values.get(name), Known) for name in node.reads):
            with suppress(NotRead):
                knowing.visit(node)
    return {name: value.value for name, value in knowing.values.items() if isinstance(value, Known)}


class _Specialiser:
    def __init__(self, graph: Graph, shape: tuple[int, ...], batch: int, straight: bool, kind: torch.dtype):
        self._graph, self._batch, self._kinds = graph, batch, dict(graph.kinds)
        source, output = graph.sources[0].name if graph.sources else "", graph.outputs[0]
        # A file of one fixed number of images has no second one
        self._sizes = (batch, batch) if batch else BATCHES
        # On "meta": shapes and types without memory
        images = tuple(torch.empty(count, *shape, dtype=kind, device="meta") for count in self._sizes)
        self.values: dict[str, Value] = {name: Known(value) for name, value in graph.constants.items()}
        self.values[source] = Live(images)
        self._done = Specialised(source, output, straight=straight)

    def run(self) -> Specialised:
        """Return what is left for a pass."""
        for node in self._graph.nodes:
            self.visit(node)
        done, output = self._done, self.values[self._done.output]
        if not isinstance(output, Live):
            raise NotRead(f"{done.output!r} does not depend on the image")
        fold(done, {n: tuple(v.samples[0].shape) for n, v in self.values.items() if _is_tensor(v)})
        # Only what leads to the output, and each value freed behind its last reader
        done.steps[:] = _plan_frees(_prune_steps(done.steps, done.output), done.output)
        read = {argument.stored for step in done.steps for argument in step.arguments}
        done.stored = {name: value for name, value in done.stored.items() if name in read}
        done.weights &= done.stored.keys()
        return done

    def visit(self, node: Node) -> None:
        """Work out what a node gives, or leave it to the pass."""
        if node.op == "If" and node.domain == STANDARD:
            self._branch(node)
            return
        operator = OPERATORS.get((node.domain, node.op))
        if operator is None or RANDOM in node.op or node.op in DRAWS:
            draws = ", which draws random numbers" if RANDOM in node.op or node.op in DRAWS else ""
            raise NotRead(f"the operator {node.op}{f' of {node.domain}' if node.domain else ''}{draws}")
        try:
            self._compute(node, operator)
        except NotRead as error:
            raise NotRead(f"{node}: {error}") from error
        except Exception as error:  # whatever torch raises for sizes that do not fit
            raise NotRead(f"{node} fails: {first_line(error)}") from error

    def _branch(self, node: Node) -> None:
        """Go on with the branch of an If that is taken, whatever the image."""
        chosen = self.values[node.inputs[0]]
        if not isinstance(chosen, Known):
            raise NotRead(f"{node}, which depends on the image")
        inner: Graph = node.attributes["then_branch" if bool(chosen.value.reshape(-1)[0]) else "else_branch"]
        inner = _within(inner, node.name)
        self.values |= {name: Known(value) for name, value in inner.constants.items()}
        self._kinds |= inner.kinds
        for part in inner.nodes:
            self.visit(part)
        for outer, name in zip(node.outputs, inner.outputs, strict=True):
            if outer:
                self.visit(Node("Identity", STANDARD, f"{node.name}/{outer}", 1, (name,), (outer,), {}))

    def _compute(self, node: Node, operator: Operator) -> None:
        node, inputs = self._in_place(node, operator)
        values = [self.values[name] if name else None for name in inputs]
        keywords = self._keywords(node, operator, inputs)
        live = [value for value in values if isinstance(value, Live)]
        found = None
        # Shapes of what a pass computes are known although its values are not
        if not live or node.op in ("Shape", "Size"):
            found = [self._apply(node, operator, values, keywords, count) for count in self._samples(values)]
            if self._settle(node, values, found):
                return
        self._leave_to_the_pass(node, operator, inputs, values, keywords, found)

    def _in_place(self, node: Node, operator: Operator) -> tuple[Node, list[str]]:
        """Return the node with attributes that later versions have as inputs among its inputs."""
        inputs, attributes = list(node.inputs), dict(node.attributes)
        for name, place in operator.formerly.items():
            if name in attributes:
                value = attributes.pop(name)
                # Left out ones in between are ""
                inputs += [""] * (place + 1 - len(inputs))
                inputs[place] = f"{node.name}:{name}"
                real = isinstance(value, float) or (
                    isinstance(value, list) and any(isinstance(v, float) for v in value)
                )
                self.values[inputs[place]] = Known(torch.tensor(value, dtype=torch.float64 if real else torch.int64))
        return replace(node, attributes=attributes), inputs

    def _keywords(self, node: Node, operator: Operator, inputs: Sequence[str]) -> dict[str, Any]:
        """Return attributes that the operator takes, and what else of what is known it asks for."""
        known = {
            "op": node.op, "version": node.version, "outputs": _last(node.outputs) + 1, "straight": self._done.straight,
            "kinds": tuple(self._kinds.get(name, 0) for name in inputs), "real": torch.float32,
            "device": torch.device("cpu"),
        }  # fmt: skip
        unknown = [name for name in node.attributes if name not in operator.keywords]
        # An attribute that is not read might change the meaning
        if unknown:
            raise NotRead(f"its attribute {unknown[0]}={_format_value(node.attributes[unknown[0]])} is not known")
        return {**{key: value for key, value in known.items() if key in operator.keywords}, **node.attributes}

    def _samples(self, values: Sequence[Value | None]) -> tuple[int, ...]:
        """Return for which of the samples something has to be worked out: one where all is known."""
        return (0,) if all(value is None or isinstance(value, Known) for value in values) else (0, 1)

    def _apply(
        self, node: Node, operator: Operator, values: Sequence[Value | None], keywords: Mapping[str, Any], sample: int
    ) -> list[Any]:
        """Return the outputs for one of the numbers of images."""
        images, arguments = self._sizes[sample], []
        for place, value in enumerate(values):
            match value:
                case Live():
                    if place in operator.numbers:
                        raise NotRead("its sizes depend on the image")
                    arguments.append(value.samples[sample])
                case Growing():
                    arguments.append(value.to_numbers(images) if place in operator.numbers else value.at(images))
                case Known():
                    arguments.append(self._unwrap(value.value, place, operator))
                case None:
                    arguments.append(None)
        # Nothing to compute: same shape and type, without values
        if (
            operator.keeps
            and isinstance(arguments[0], Tensor)
            and arguments[0].is_meta
            and not any(isinstance(argument, Tensor) for argument in arguments[1:])
        ):
            return arguments[:1]
        on_meta = [a.to("meta") if isinstance(a, Tensor) else a for a in arguments]
        if any(isinstance(value, Live) for value in values):
            arguments = on_meta
        elif node.op in (*ENLARGING, "Pad", "Resize", "Upsample"):  # how much it would be, before it is
            there = {**keywords, "device": torch.device("meta")} if "device" in keywords else keywords
            _check_size(operator.compute(*on_meta, **there))
        with torch.no_grad():
            found = operator.compute(*arguments, **keywords)
        _check_size(found)
        return list(found) if isinstance(found, tuple) else [found]

    def _unwrap(self, value: Any, place: int, operator: Operator) -> Any:
        """Return what is known as a number or a list where an operator wants that, else as a tensor."""
        if not _is_number(value, place, operator):
            return value
        return value.tolist() if place in operator.numbers else value.reshape(()).item()

    def _settle(self, node: Node, values: Sequence[Value | None], found: Sequence[Sequence[Any]]) -> bool:
        """Keep outputs that are known or grow; False where the pass has to compute them."""
        known: list[Value] = []
        # For each output, its value for every sample
        for each in zip(*found, strict=True):
            value = self._infer_value(node, values, each)
            if value is None:
                return False
            known.append(value)
        for name, value in zip(node.outputs, known, strict=False):
            if name:
                self.values[name] = value
                self._done.grows |= isinstance(value, Growing)
        if node.op == "Cast" and isinstance(node.attributes["to"], int):
            self._kinds[node.outputs[0]] = node.attributes["to"]
        elif node.op in MOVING and node.inputs[0] in self._kinds:
            self._kinds[node.outputs[0]] = self._kinds[node.inputs[0]]
        return True

    def _infer_value(self, node: Node, values: Sequence[Value | None], found: Sequence[Any]) -> Value | None:
        first = found[0]
        if len(found) == 1:
            if not isinstance(first, Tensor):
                return Known(first)
            large = node.op in ENLARGING and first.numel() > LARGE
            smaller = large and any(isinstance(v, Known) and isinstance(v.value, Tensor) for v in values)
            # A constant of the file's own batch would fix it
            opened = self._batch and node.op in ENLARGING and first.shape[:1] == (self._batch,)
            return None if smaller or opened else Known(first)
        second = found[1]
        if not isinstance(first, Tensor) or first.shape != second.shape:
            return None
        if torch.equal(first, second):
            return Known(first)
        if first.dtype not in (torch.int64, torch.int32) or first.numel() > SMALL:
            return None
        few, more = self._sizes
        # a + b · images, the line through both samples
        each = torch.div(second - first, more - few, rounding_mode="floor")
        return Growing(first - each * few, each)

    def _leave_to_the_pass(
        self, node: Node, operator: Operator, inputs: Sequence[str], values: Sequence[Value | None],
        keywords: Mapping[str, Any], found: Sequence[Sequence[Any]] | None,
    ) -> None:  # fmt: skip
        """Add a step, and follow what it gives on tensors without values, where that is not known."""
        opened = self._free_batch_size(node, values)
        # What was worked out before holds, unless sizes were opened since
        if found is None or len(found) == 1 or any(a is not b for a, b in zip(opened, values, strict=True)):
            without = [
                # Known tensors without values too, as the pass reads them from memory
                Live((_without_values(value.value),) * 2)
                if isinstance(value, Known) and not _is_number(value.value, place, operator)
                else value
                for place, value in enumerate(opened)
            ]
            found = [self._apply(node, operator, without, keywords, sample) for sample in (0, 1)]
        for place, name in enumerate(node.outputs[: len(found[0])]):
            if name:
                self.values[name] = Live(tuple(_without_values(outputs[place]) for outputs in found))
        arguments = tuple(
            self._argument(place, name, value, operator)
            for place, (name, value) in enumerate(zip(inputs, opened, strict=True))
        )
        self._done.steps.append(Step(node, operator, arguments, keywords))

    def _argument(self, place: int, name: str, value: Value | None, operator: Operator) -> Argument:
        match value:
            case Live():
                return Argument(live=name)
            case Growing():
                self._done.grows = True
                return Argument(growing=value, tensor=place not in operator.numbers)
            case Known():
                held = self._unwrap(value.value, place, operator)
                if not isinstance(held, Tensor):
                    return Argument(plain=held)
                self._done.stored[name] = held
                if place in operator.weights and _learnable(held):
                    self._done.weights.add(name)
                return Argument(stored=name)
        return Argument()

    def _free_batch_size(self, node: Node, values: Sequence[Value | None]) -> list[Value | None]:
        """Return sizes with the number of images instead of the file's own, where a file takes but one number.

        Whether that is what the file means is seen when it is compared image by image.
        """
        opened = list(values)
        if not self._batch or node.op not in ("Reshape", "Expand", "ConstantOfShape", "Tile", "Resize", "AffineGrid"):
            return opened
        # Which input holds the sizes
        place = 0 if node.op == "ConstantOfShape" else 3 if node.op == "Resize" else 1
        sizes = opened[place] if place < len(opened) else None
        first = values[0]
        if not isinstance(sizes, Known) or sizes.value.ndim != 1 or not len(sizes.value):
            return opened
        of_images = not isinstance(first, Live) or first.samples[0].shape[:1] == (self._batch,)
        if int(sizes.value[0]) == self._batch and (of_images or node.op != "Reshape") and node.op != "Tile":
            # 0 + 1 · images instead of the file's number
            each = torch.zeros_like(sizes.value)
            each[0] = 1
            base = sizes.value.clone()
            base[0] = 0
            opened[place] = Growing(base, each)
        return opened


def _within(graph: Graph, place: str, outer: Mapping[str, str] | None = None) -> Graph:
    """Return a graph inside a node with names that are its own, for others inside may have the same."""
    own = {name for node in graph.nodes for name in node.outputs if name} | set(graph.constants)
    named = {**(outer or {}), **{name: f"{place}/{name}" for name in own}}

    def of(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(named.get(name, name) for name in names)

    nodes = tuple(
        replace(
            node,
            name=f"{place}/{node.name}",
            inputs=of(node.inputs),
            outputs=of(node.outputs),
            attributes={
                key: _within(value, f"{place}/{node.name}", named) if isinstance(value, Graph) else value
                for key, value in node.attributes.items()
            },
        )
        for node in graph.nodes
    )
    constants = {named[name]: value for name, value in graph.constants.items()}
    kinds = {named.get(name, name): kind for name, kind in graph.kinds.items()}
    return Graph(graph.sources, of(graph.outputs), nodes, constants, kinds)


def _check_size(found: Any) -> None:
    """Refuse what no memory has room for."""
    for value in found if isinstance(found, (tuple, list)) else (found,):
        if isinstance(value, Tensor) and value.numel() > MOST:
            raise NotRead(f"it gives {list(value.shape)}, more numbers than there is room for")


def _is_number(value: Any, place: int, operator: Operator) -> bool:
    """Whether an operator takes what is known as a number, or as a list of them."""
    if not isinstance(value, Tensor):
        return False
    # A number of at most so many axes
    return place in operator.numbers or (value.numel() == 1 and value.ndim <= operator.scalars.get(place, -1))


def _is_tensor(value: Value) -> TypeGuard[Live]:
    """Whether a pass computes a value, and it is one tensor."""
    return isinstance(value, Live) and isinstance(value.samples[0], Tensor)


def _without_values(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_values(part) for part in value]
    return value.to("meta") if isinstance(value, Tensor) else value


def _learnable(value: Tensor) -> bool:
    """Whether a constant is a weight: more than one number, none of them as large as what a mask adds."""
    return value.is_floating_point() and value.numel() > 1 and bool((value.abs() < 1e4).all())


def _last(outputs: Sequence[str]) -> int:
    """Return the place of the last output that is read."""
    return max((place for place, name in enumerate(outputs) if name), default=0)


def _format_value(value: Any) -> str:
    return repr(value) if isinstance(value, (int, float, str, list)) else type(value).__name__


def _prune_steps(steps: Sequence[Step], output: str) -> list[Step]:
    """Return the steps that an output depends on."""
    wanted, kept = {output}, []
    # From the end, as in `Graph.computing`
    for step in reversed(steps):
        if wanted.intersection(step.node.outputs):
            kept.append(step)
            wanted.update(argument.live for argument in step.arguments if argument.live)
    return kept[::-1]


def _plan_frees(steps: Sequence[Step], output: str) -> Iterator[Step]:
    """Yield steps with the names of values that are read for the last time."""
    later, freeing = {output}, []
    for step in reversed(steps):
        # A value ends with the last step that reads it, or that gives it to nobody
        read = {argument.live for argument in step.arguments if argument.live} | {n for n in step.node.outputs if n}
        freeing.append(replace(step, frees=tuple(sorted(read - later))))
        later |= read
    yield from reversed(freeing)
