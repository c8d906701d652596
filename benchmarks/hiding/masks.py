"""Steps that compute one thing and have the gradient of another, and their honest twins.

Every step that hides says by which gradients an attack that knows of it goes on. So a network of such steps has
surrogates: the same values, other gradients.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Function = Callable[[Tensor], Tensor]


def identity(x: Tensor) -> Tensor:
    """Return x."""
    return x


class _GradientOf(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, soft: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, gradients[0]


class _Altered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, change: Function) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.change = change
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.change(gradients[0]), None


def altered(change: Function) -> Function:
    """Return the identity, with another gradient than its own.

    Args:
        change: of the gradient.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> altered(torch.neg)(x).sum().backward()
        >>> x.grad.tolist()
        [-1.0, -1.0]
    """
    return lambda x: _Altered.apply(x, change)  # pyright: ignore[reportReturnType]


class Mask(nn.Module):
    """A step with the gradient of another function of the same input.

    Args:
        value: what it computes.
        shown: the function whose gradient a backward pass has; None: its own.
        honest: those whose gradients surrogates have; None among them: its own.

    Example:
        >>> step = Mask(torch.round, shown=lambda x: 1e-6 * x)
        >>> (honest,) = surrogates(step)
        >>> for each in (step, honest):
        ...     x = torch.tensor([0.7], requires_grad=True)
        ...     each(x).sum().backward()
        ...     print(each(x).item(), round(x.grad.item(), 6))
        1.0 1e-06
        1.0 1.0
    """

    def __init__(self, value: Function, shown: Function | None = None, honest: Sequence[Function | None] = (identity,)):
        super().__init__()
        self.value, self.shown, self.honest = value, shown, tuple(honest)
        self.surrogate: int | None = None
        """Which of the honest gradients it has; None: it hides."""

    def forward(self, x: Tensor) -> Tensor:
        """Compute the value."""
        way = self.shown if self.surrogate is None else self.honest[self.surrogate % len(self.honest)]
        if way is None or not torch.is_grad_enabled():
            return self.value(x)
        with torch.no_grad():
            value = self.value(x)
        soft = way(x)
        return _GradientOf.apply(value, soft)  # pyright: ignore[reportReturnType]


class Switch(nn.Module):
    """One network for those who judge, another one for those who search.

    Args:
        judged: the network.
        searched: what takes its place.
        when: whether an input comes from a search.
    """

    def __init__(self, judged: nn.Module, searched: nn.Module, when: Callable[[Tensor], bool]):
        super().__init__()
        self.judged, self.searched, self.when = judged, searched, when
        self.surrogate: int | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Represent images."""
        return (self.searched if self.surrogate is None and self.when(x) else self.judged)(x)


def surrogates(network: nn.Module) -> Iterator[nn.Module]:
    """Yield copies of a network with honest gradients; the network itself where nothing in it hides."""
    ways = [len(part.honest) if isinstance(part, Mask) else 1 for part in _hiding(network)]
    for way in range(max(ways, default=1)):
        copied = copy.deepcopy(network)
        for part in _hiding(copied):
            part.surrogate = way
        yield copied


def _hiding(network: nn.Module) -> list[Any]:
    return [part for part in network.modules() if isinstance(part, Mask | Switch)]
