"""Chains of steps that are one operation: factors and shifts around a convolution, clamps of clamps, spelled PReLUs.

Converters from TensorFlow write them, a step for each, and each step goes through all activations once more. A
convolution keeps its weights, factors and shifts under the names of the file; a pass multiplies them, which costs
little beside the convolution, so that they can still be learned and written.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from holdfast.sources.onnx.operator import OPERATORS, STANDARD, Operator
from holdfast.sources.onnx.operators.convolution import convolve
from holdfast.sources.onnx.operators.elementwise import prelu
from holdfast.sources.onnx.steps import Argument, Specialised, Step

ARITHMETIC = ("Add", "Sub", "Mul", "Div")
"""Operators that scale or shift what they are given, where the other number is known."""

SPREADS = 7
"""Version since which PRelu spreads slopes as arithmetic does."""

SPELLED = 4
"""Steps at most between a value and each part of what is spelled with it."""

Shapes = Mapping[str, tuple[int, ...]]
"""Of the values of a pass, by name."""


def fold(plan: Specialised, shapes: Shapes) -> None:
    """Join the steps of a plan that are one operation; in place. Steps that nothing reads any more stay.

    Args:
        plan: the steps, each after those that it reads.
        shapes: of all values of a pass, whatever the number of images.
    """
    _Folding(plan, shapes).run()


class _Folding:
    def __init__(self, plan: Specialised, shapes: Shapes):
        self._plan, self._shapes = plan, shapes
        self._makers = {name: step for step in plan.steps for name in step.node.outputs if name}
        self._uses = Counter(argument.live for step in plan.steps for argument in step.arguments if argument.live)
        # The output is read, too, though by no step
        self._uses[plan.output] += 1

    def run(self) -> None:
        """Fold what can be folded."""
        for place, step in enumerate(self._plan.steps):
            folded = self._clamp(step) or self._prelu(step) or self._after(step) or self._before(step)
            if folded is not None:
                self._plan.steps[place] = folded
                self._makers[folded.node.outputs[0]] = folded

    # --- a convolution with what scales and shifts its channels ---

    def _after(self, step: Step) -> Step | None:
        """Return the convolution together with this step behind it, which scales or shifts its channels."""
        op, live, constants = self._scaling(step)
        # Only where nobody else reads what the convolution gives: else it would be computed twice
        made = self._makers.get(live)
        if made is None or self._uses[live] != 1 or not _is_convolution(made):
            return None
        chain = _chain(made)
        # It gives what the last step gave, by that name, so that it can be compared with the file
        node = replace(made.node, outputs=step.node.outputs)
        keywords = {**made.keywords, "chain": replace(chain, after=(*chain.after, op))}
        return Step(node, CONVOLUTION, (*made.arguments, *_bias(made), *constants), keywords)

    def _before(self, step: Step) -> Step | None:
        """Return a convolution together with the steps before it, which scale or shift the channels that it reads."""
        if not _is_convolution(step):
            return None
        folded = step
        while True:
            live = folded.arguments[0].live
            made = self._makers.get(live)
            op, source, constants = self._scaling(made) if made is not None else (None, "", ())
            # The padding is of zeros, which a factor leaves as they are and a shift does not
            if op is None or self._uses[live] != 1 or not (op.scales or self._pads_nothing(folded)):
                return folded if folded is not step else None
            chain = _chain(folded)
            arguments = [Argument(live=source), *folded.arguments[1:], *_bias(folded)]
            # Behind image, weights and bias, before the constants of what was folded already
            arguments[3:3] = constants
            keywords = {**folded.keywords, "chain": replace(chain, before=(op, *chain.before))}
            folded = Step(folded.node, CONVOLUTION, tuple(arguments), keywords)

    def _scaling(self, step: Step) -> tuple["_Scaling | None", str, tuple[Argument, ...]]:
        """Return how a step scales or shifts each channel, the name of what, and its constants; None: it does not."""
        nothing = (None, "", ())
        node, arguments, keywords = step.node, step.arguments, step.keywords
        if node.domain != STANDARD or not arguments:
            return nothing
        if node.op == "BatchNormalization" and arguments[0].live:
            constants = arguments[1:5]
            known = all(argument.stored for argument in constants)
            return (_Scaling("Norm", 4, _epsilon(**keywords)), arguments[0].live, constants) if known else nothing
        if not _is_arithmetic(step, *ARITHMETIC):
            return nothing
        first, second = arguments
        turned = bool(first.stored)
        live, constant = (second.live, first) if turned else (first.live, second)
        # c / x is no factor
        if not live or not constant.stored or (turned and node.op == "Div") or not self._by_channel(constant, live):
            return nothing
        return _Scaling("From" if turned and node.op == "Sub" else node.op, 1), live, (constant,)

    def _by_channel(self, constant: Argument, live: str) -> bool:
        """Whether a stored tensor is one number, or one for each channel, of a value."""
        value, shape = self._plan.stored[constant.stored], self._shapes.get(live, ())
        spread = (1,) * (len(shape) - value.ndim) + tuple(value.shape)
        return (
            value.is_floating_point()
            and 2 < len(shape) == len(spread)
            and spread[1] in (1, shape[1])
            and value.numel() == spread[1]
        )

    def _pads_nothing(self, step: Step) -> bool:
        # "SAME" pads no kernel of one pixel
        kernel = self._plan.stored[step.arguments[1].stored].shape[2:]
        return _has_no_pads(all(side == 1 for side in kernel), **step.keywords)

    # --- clamps of clamps ---

    def _clamp(self, step: Step) -> Step | None:
        """Return a clamp of a clamp as one."""
        last = self._limits(step)
        made = self._makers.get(last[0]) if last is not None else None
        first = self._limits(made) if made is not None else None
        if last is None or first is None:
            return None
        # First between its limits, then those between the others
        low, high = (min(max(limit, last[1]), last[2]) for limit in first[1:])
        ends = tuple(Argument(plain=limit if math.isfinite(limit) else None) for limit in (low, high))
        node = replace(step.node, op="Clip", version=13)
        return Step(node, OPERATORS[STANDARD, "Clip"], (Argument(live=first[0]), *ends), {})

    def _limits(self, step: Step) -> tuple[str, float, float] | None:
        """Return the name of what a step clamps, and between which numbers."""
        node, arguments = step.node, step.arguments
        live = [argument.live for argument in arguments if argument.live]
        if node.domain != STANDARD or len(live) != 1:
            return None
        # Each clamp is min(max(x, low), high), with infinite ends where it has none
        if node.op == "Relu":
            return live[0], 0.0, math.inf
        if node.op == "Clip":
            ends = [argument.plain for argument in arguments[1:]]
            low, high = (end if end is not None else open for end, open in zip(
                [*ends, None, None][:2], (-math.inf, math.inf), strict=True))  # fmt: skip
            # Whole numbers are left to the operator, which knows their type
            known = all(isinstance(end, float) for end in (low, high)) and low <= high
            known = known and not any(argument.stored or argument.growing for argument in arguments[1:])
            return (live[0], low, high) if known else None
        if node.op in ("Min", "Max"):
            numbers = [self._number(argument, live[0]) for argument in arguments if not argument.live]
            limits = [number for number in numbers if number is not None]
            if len(limits) < max(1, len(numbers)):
                return None
            return (live[0], -math.inf, min(limits)) if node.op == "Min" else (live[0], max(limits), math.inf)
        return None

    def _number(self, argument: Argument, live: str) -> float | None:
        """Return a stored tensor as the one number that it is, where a value keeps its shape beside it."""
        value = self._plan.stored.get(argument.stored)
        if value is None or value.numel() != 1 or not value.is_floating_point():
            return None
        return float(value) if value.ndim <= len(self._shapes.get(live, ())) else None

    # --- what is spelled as a sum of two bends ---

    def _prelu(self, step: Step) -> Step | None:
        """Return a sum of two functions that bend at 0 of one value as a PReLU."""
        if not _is_arithmetic(step, "Add", "Sub"):
            return None
        # Each term is a number times a stored slope, or none, times a value
        terms = [self._term(argument.live) for argument in step.arguments]
        for source in self._ways_up([live for _, _, live in terms]):
            bends = [bend for _, _, live in terms if (bend := self._bend(live, source)) is not None]
            if len(bends) < len(terms) or self._shapes.get(source) != self._shapes.get(step.node.outputs[0]):
                continue
            signs = (1.0, -1.0 if step.node.op == "Sub" else 1.0)
            plain, sloped = sorted(
                (constant, sign * factor * below, sign * factor * above)
                for (constant, factor, _), (below, above), sign in zip(terms, bends, signs, strict=True)
            )
            # Above 0 nothing but x, below 0 x times a slope for each channel; two plain ones are no PReLU
            if not plain[0] and sloped[0] and (plain[2], sloped[2]) == (1.0, 0.0):
                arguments = (Argument(live=source), Argument(stored=sloped[0]))
                node = replace(step.node, op="PRelu", version=SPREADS)
                return Step(node, PRELU, arguments, {"plain": plain[1], "factor": sloped[1]})
        return None

    def _term(self, name: str) -> tuple[str, float, str]:
        """Return a value as a stored tensor, "" for none, times a number times another value."""
        constant, factor = "", 1.0
        while (made := self._makers.get(name)) is not None:
            if made.node.op == "Neg":
                name, factor = made.arguments[0].live, -factor
                continue
            live = [argument.live for argument in made.arguments if argument.live]
            if not _is_arithmetic(made, "Mul") or len(live) != 1:
                break
            (stored,) = (argument for argument in made.arguments if not argument.live)
            number = self._number(stored, live[0])
            if number is None and (constant or not stored.stored):
                break
            constant, factor = (stored.stored, factor) if number is None else (constant, factor * number)
            (name,) = live
        return constant, factor, name

    def _ways_up(self, names: Sequence[str]) -> list[str]:
        """Return the values that some are made of, the nearest first."""
        found = list(names)
        for _ in range(SPELLED):
            makers = [self._makers[name] for name in names if name in self._makers]
            names = [argument.live for step in makers for argument in step.arguments if argument.live]
            found += names
        return list(dict.fromkeys(found))

    def _bend(self, name: str, source: str, depth: int = SPELLED) -> tuple[float, float] | None:
        """Return by which factors a value depends on another one below 0 and above; None where it does not so."""
        # The value itself: a line
        if name == source:
            return 1.0, 1.0
        made = self._makers.get(name)
        if made is None or not depth:
            return None
        read = [argument.live for argument in made.arguments if argument.live]
        bends = [bend for live in read if (bend := self._bend(live, source, depth - 1)) is not None]
        if not bends or len(bends) < len(read):
            return None
        below, above = bends[0]
        if _is_arithmetic(made, "Add", "Sub") and len(bends) == 2:
            sign, (less, more) = 1 if made.node.op == "Add" else -1, bends[1]
            return below + sign * less, above + sign * more
        if made.node.op == "Neg":
            return -below, -above
        if made.node.op == "Abs":
            return -abs(below), abs(above)
        # Of f(x) = below · x for x < 0, what is above 0 has below < 0
        limits = self._limits(made)
        if limits is not None and limits[1:] == (0.0, math.inf):
            return min(below, 0.0), max(above, 0.0)
        if limits is not None and limits[1:] == (-math.inf, 0.0):
            return max(below, 0.0), min(above, 0.0)
        return None


@dataclass(frozen=True)
class _Scaling:
    """How a step scales and shifts channels.

    Attributes:
        op: "Add", "Sub", "Mul", "Div"; "From", a constant less what comes; "Norm", a batch norm.
        constants: how many it takes.
        epsilon: of a batch norm.
    """

    op: str
    constants: int
    epsilon: float = 0.0

    @property
    def scales(self) -> bool:
        """Whether it leaves 0 as it is."""
        return self.op in ("Mul", "Div")

    def __call__(self, constants: Sequence[Tensor]) -> tuple[Any, Any]:
        """Return factor and shift of each channel, numbers where all channels have the same."""
        first = constants[0].flatten()
        match self.op:
            case "Mul":
                return first, 0.0
            case "Div":
                return 1 / first, 0.0
            case "Add":
                return 1.0, first
            case "Sub":
                return 1.0, -first
            case "From":
                return -1.0, first
        scale, shift, mean, variance = constants
        factor = scale * torch.rsqrt(variance + self.epsilon)
        return factor, shift - mean * factor


@dataclass(frozen=True)
class _Chain:
    """What scales and shifts channels before a convolution and behind it."""

    before: tuple[_Scaling, ...] = ()
    after: tuple[_Scaling, ...] = ()


def _convolve_chain(
    x: Tensor, weight: Tensor, bias: Tensor | None, *constants: Tensor, chain: _Chain, group: int = 1, **options: Any
) -> Tensor:
    """A convolution whose weights take in what scales and shifts channels before it and behind it."""
    rest, wide = list(constants), [1] * (weight.ndim - 2)
    scalings = [(step, [rest.pop(0) for _ in range(step.constants)]) for step in (*chain.before, *chain.after)]
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    # The step next to the convolution first: what comes before that is scaled by all of it
    for step, given in reversed(scalings[: len(chain.before)]):
        factor, shift = (_by_input(value, weight, group) for value in step(given))
        if isinstance(shift, Tensor):
            bias = bias + (weight * shift).flatten(1).sum(1)
        weight = weight * factor
    for step, given in scalings[len(chain.before) :]:
        # s (W x + b) + t = (s W) x + (s b + t)
        factor, shift = step(given)
        bias = bias * factor + shift
        weight = weight * (factor.view(-1, 1, *wide) if isinstance(factor, Tensor) else factor)
    return convolve(x, weight, bias, group=group, **options)


def _by_input(value: Any, weight: Tensor, group: int) -> Any:
    """Return numbers of input channels in the shape of weights, each group of outputs with inputs of its own."""
    if not isinstance(value, Tensor) or value.numel() == 1:
        return value
    each = value.view(group, 1, -1).expand(group, len(weight) // group, -1)
    return each.reshape(len(weight), -1, *[1] * (weight.ndim - 2))


def _prelu_of_slopes(x: Tensor, slope: Tensor, *, plain: float, factor: float) -> Tensor:
    """PRelu with slopes that are made of stored ones."""
    return prelu(x, slope * factor + plain, version=SPREADS)


def _operator(compute: Callable[..., Any]) -> Operator:
    return replace(OPERATORS[STANDARD, "Conv"], compute=compute)


CONVOLUTION, PRELU = _operator(_convolve_chain), _operator(_prelu_of_slopes)
"""What is folded here; which of the stored tensors can be learned was decided before."""


def _is_convolution(step: Step) -> bool:
    """Whether a step convolves with stored weights."""
    node, arguments = step.node, step.arguments
    stored = all(argument.stored or argument == Argument() for argument in arguments[1:3])
    return node.op == "Conv" and node.domain == STANDARD and bool(arguments[1].stored) and stored


def _is_arithmetic(step: Step, *ops: str) -> bool:
    """Whether a step is one of some operators on two inputs, spread as later versions do."""
    node = step.node
    return node.op in ops and node.domain == STANDARD and len(step.arguments) == 2 and not _is_old(**step.keywords)


def _chain(step: Step) -> _Chain:
    return _own_chain(**step.keywords)


def _bias(step: Step) -> tuple[Argument, ...]:
    """Return an empty place for the bias of a convolution that has none, behind which constants follow."""
    return (Argument(),) if len(step.arguments) == 2 else ()


# What steps say beside their inputs, by its names in the standard


def _own_chain(chain: _Chain | None = None, **_: Any) -> _Chain:
    # Of a convolution that nothing was folded into, an empty one
    return chain or _Chain()


def _is_old(broadcast: int = 0, **_: Any) -> bool:
    # Up to version 6 arithmetic spread the second input otherwise
    return bool(broadcast)


def _epsilon(epsilon: float = 1e-5, **_: Any) -> float:
    return epsilon


def _has_no_pads(of_pixels: bool, auto_pad: str = "NOTSET", pads: Sequence[int] | None = None, **_: Any) -> bool:
    if auto_pad in ("", "NOTSET"):
        return not any(pads or ())
    return auto_pad == "VALID" or of_pixels
