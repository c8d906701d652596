"""A graph of ONNX as a torch module: the same operations on the same numbers, with a gradient and with weights."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.sources.onnx.file import Images
from holdfast.sources.onnx.steps import Argument, Specialised, Step

ALONE = ("DynamicQuantizeLinear",)
"""Operators that compute one number of a whole batch: each image is a batch of its own."""

Outputs = tuple[Any, ...]

CONVOLVES = ("Conv", "ConvTranspose", "FusedConv", "QLinearConv", "ConvInteger")


class Operation(nn.Module):
    """A node of a graph, as a module of its own: so it can be named where something cannot be done with it.

    Args:
        step: what is done.

    Attributes:
        op: its operator.
        convolves: whether it is a convolution, which is faster on images whose channels lie together.
    """

    def __init__(self, step: Step):
        super().__init__()
        self.op, self.convolves = step.node.op, step.node.op in CONVOLVES
        self._compute, self._keywords = step.operator.compute, dict(step.keywords)

    def forward(self, *inputs: Any, real: torch.dtype, device: torch.device) -> Any:
        """Return what it computes; what it makes itself has the type of the images, where they are."""
        keywords = dict(self._keywords)
        if "real" in keywords:
            keywords["real"] = real
        if "device" in keywords:
            keywords["device"] = device
        return self._compute(*inputs, **keywords)


class Stored(nn.Module):
    """Weights and constants, by their names in the file: of a dotted name each part is a module."""


class OnnxNetwork(nn.Module):
    """What a file computes of images in the precision of these, with a gradient to them.

    Weights are parameters under the names that they have in the file, so that those of the network that was exported
    fit. Real numbers of every precision are computed in that of the images.

    Args:
        plan: the steps of a pass.

    Attributes:
        output: name of the tensor that it gives.
        alone: whether each image is a batch of its own, since the file computes a number of the whole batch.
        grows: whether a shape depends on the number of images.
    """

    def __init__(self, plan: Specialised):
        super().__init__()
        self._source, self.output = plan.source, plan.output
        self.alone = any(step.node.op in ALONE for step in plan.steps)
        self.grows = plan.grows
        self.operations = nn.Module()
        self._places: dict[str, tuple[nn.Module, str]] = {}
        for name, value in plan.stored.items():
            self._places[name] = _store(self, name, value, name in plan.weights)
        self._steps: list[tuple[str, Step]] = []
        for step in plan.steps:
            key, number = _escape_name(step.node.name), 0
            # Names of nodes may become equal once dots are gone
            while key in self.operations._modules:
                key, number = f"{_escape_name(step.node.name)}_{number + 1}", number + 1
            self.operations.add_module(key, Operation(step))
            self._steps.append((key, step))

    def forward(self, x: Tensor) -> Any:
        """Return the tensor of the file that is its output."""
        if self.alone and len(x) > 1:
            return torch.cat([self._pass(image) for image in x.split(1)])
        return self._pass(x)

    def _pass(self, x: Tensor) -> Any:
        held = {self._source: x}
        for key, step in self._steps:
            found = self._operation(key)(*self._inputs(step, held, x), real=x.dtype, device=x.device)
            for name, value in zip(step.node.outputs, found if isinstance(found, tuple) else (found,), strict=False):
                held[name] = value
            # Values live as long as somebody reads them, or a pass would hold all activations
            for name in step.frees:
                held.pop(name, None)
        return held[self.output]

    @torch.no_grad()
    def walk(self, x: Tensor, given: Mapping[str, Tensor]) -> Iterator[tuple[Step, Outputs, Callable[[], Outputs]]]:
        """Yield each step, what it gives of inputs that are given, and what computes that in float64.

        Args:
            x: images.
            given: what steps are to take for what others gave, by name.
        """
        held: dict[str, Any] = {self._source: x}
        for key, step in self._steps:
            inputs = self._inputs(step, held, x)

            def compute(real: torch.dtype, key: str = key, inputs: Sequence[Any] = inputs) -> Outputs:
                # `key` and `inputs` are bound as defaults: it is called when the loop has gone on
                values = (_of_type(value, real) for value in inputs)
                found = self._operation(key)(*values, real=real, device=x.device)
                return found if isinstance(found, tuple) else (found,)

            found = compute(x.dtype)
            yield step, found, partial(compute, torch.float64)
            for name, value in zip(step.node.outputs, found, strict=False):
                # What the runtime gave goes on, so that no difference grows from node to node
                held[name] = given[name].to(value.dtype) if name in given and isinstance(value, Tensor) else value

    @property
    def steps(self) -> list[Step]:
        """What a pass does, in its order."""
        return [step for _, step in self._steps]

    def _operation(self, key: str) -> Any:
        return self.operations._modules[key]

    def _inputs(self, step: Step, held: Mapping[str, Any], x: Tensor) -> list[Any]:
        return [self._input(argument, held, x) for argument in step.arguments]

    def _input(self, argument: Argument, held: Mapping[str, Any], x: Tensor) -> Any:
        if argument.live:
            return held[argument.live]
        if argument.stored:
            return self.find_tensor(argument.stored)
        if argument.growing is not None:
            # For the number of images of this pass
            numbers = argument.growing.to_numbers(x.shape[0])
            return torch.tensor(numbers, device=x.device) if argument.tensor else numbers
        return argument.plain

    def find_tensor(self, name: str) -> Tensor:
        """Return a weight or constant by its name in the file."""
        module, key = self._places[name]
        return getattr(module, key)

    @property
    def learnable(self) -> dict[str, nn.Parameter]:
        """Weights by their names in the file."""
        stored = {name: self.find_tensor(name) for name in self._places}
        return {name: value for name, value in stored.items() if isinstance(value, nn.Parameter)}


def _of_type(value: Any, real: torch.dtype) -> Any:
    return value.to(real) if isinstance(value, Tensor) and value.is_floating_point() else value


def _store(root: nn.Module, name: str, value: Tensor, learned: bool) -> tuple[nn.Module, str]:
    """Keep a tensor below a module, and return the module and the name that hold it."""
    # An empty part of a name cannot be a module's
    *path, last = [part or "_" for part in name.split(".")]
    at = root
    for part in path:
        inner = at._modules.get(part)
        if not isinstance(inner, Stored):
            if hasattr(at, part):  # a weight, or what every module has
                # The name is taken: all of it becomes one part, with slashes for dots
                return _store(root, name.replace(".", "/"), value, learned)
            at.add_module(part, inner := Stored())
        at = inner
    # Such as "type" or "forward", which every module has
    while hasattr(at, last):
        last = f"{last}_"
    if learned:
        at.register_parameter(last, nn.Parameter(value))
    else:
        at.register_buffer(last, value)
    return at, last


def _escape_name(name: str) -> str:
    """Return a name that a module may have."""
    return name.replace(".", "/") or "_"


class Taken(nn.Module):
    """Images [B, C, H, W] as a file takes them: in its layout and its numbers.

    Args:
        network: of the file.
        images: what it takes.
        factor: by which pixels are multiplied.
    """

    def __init__(self, network: nn.Module, images: Images, factor: float):
        super().__init__()
        self.network, self._images, self._factor = network, images, factor

    def forward(self, x: Tensor) -> Any:
        """Return what the network gives."""
        # A file of 8-bit input takes 0 to 255, not rounded: a rounding would end the gradient
        return self.network(self._images.own(x if self._factor == 1 else x * self._factor))
