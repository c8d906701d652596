"""Steps without a gradient, such as rounding or JPEG: on the way back they count as the identity."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.core.randomness import is_naive
from holdfast.runtime.errors import Unsupported, unknown


def straight_through(network: nn.Module, name: str) -> None:
    """Let the gradient pass a module as if it were the identity: ∂g(x)/∂x := 1, while g itself is computed as it is.

    The module sees an input that needs no gradient, so it may leave torch. A search that is naive gets no gradient.

    Args:
        network: the network.
        name: dotted name of the module inside it.

    Raises:
        HoldfastError: an unknown module ("did you mean"); when run: an output of another shape than the input.

    Source: Athalye, Carlini & Wagner (2018), "Obfuscated gradients give a false sense of security", section 4.1.1
        (straight-through estimator, the simplest case of BPDA).
    """
    modules: Collection[str] = [path for path, _ in network.named_modules() if path]
    if name not in modules:
        raise unknown("module for straight_through", name, modules)
    module, step = network.get_submodule(name), _Step(name)
    if isinstance(module, torch.jit.ScriptModule):
        raise Unsupported(f"straight_through={name}: expected a module of Python, got TorchScript; open the original")
    # One pair of hooks, however often it is asked for
    if not any(isinstance(getattr(hook, "__self__", None), _Step) for hook in module._forward_hooks.values()):
        module.register_forward_pre_hook(step.before)
        module.register_forward_hook(step.after)


@dataclass
class _Step:
    """What runs before and after a module.

    Attributes:
        name: of the module.
        x: its input, while it runs.
    """

    name: str
    x: Tensor | None = None

    def before(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Keep the input, and give the module one without a gradient."""
        if len(args) != 1 or not isinstance(args[0], Tensor):
            raise Unsupported(
                f"straight_through={self.name}: expected a module that takes one tensor, got {len(args)} arguments; "
                "wrap the step in a module of its own"
            )
        self.x = args[0]
        return (args[0].detach(),)

    def after(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Tensor:
        """Let the gradient of the output be that of the input."""
        x, self.x = self.x, None  # put down again, or it would live as long as the network
        assert x is not None  # `before` has run
        if not isinstance(output, Tensor) or output.shape != x.shape or not output.is_floating_point():
            got = f"{output.dtype} {list(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
            raise Unsupported(
                f"straight_through={self.name}: expected real numbers of the shape of its input, {list(x.shape)}, got "
                f"{got}; give this step a differentiable substitute (torch.autograd.Function) in your own code"
            )
        if not torch.is_grad_enabled():
            return output
        # The value of the output with the gradient of the input; for a naive search that is 0
        return _Identity.apply(x, output, 0.0 if is_naive() else 1.0)  # pyright: ignore[reportReturnType]


class _Identity(torch.autograd.Function):
    """y, with the gradient to x that x itself would have, times a factor."""

    # The mean over draws runs it under torch.vmap
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, y: Tensor, factor: float) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return y.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.factor = inputs[2]

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        return grad_outputs[0] * ctx.factor, None, None
