"""The forward pass of an encoder, compiled by torch.compile: all of it or an error, for every number of images."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from holdfast.runtime.errors import Unsupported, first_line


def compile_graph(call: FunctionType, name: str) -> Callable[[Tensor], Any]:
    """Return a function compiled into one graph that takes batches of every size without being compiled again.

    It is compiled when it is first called, once with gradients and once without, and anew for a single image, for
    another memory format and in another precision.

    Args:
        call: a plain function (no method) from images to representations.
        name: of the encoder, for errors.

    Raises:
        HoldfastError: when it is called: a network that cannot be compiled, or no compiler.
    """
    # What was compiled belongs to the code of a function, for at most eight kinds of input: to each encoder its own.
    own_call = FunctionType(call.__code__.replace(), call.__globals__, closure=call.__closure__)
    graph = torch.compile(own_call, fullgraph=True)

    def run(x: Tensor) -> Any:
        # Otherwise the first number of images would be fixed, and the next one compiled anew
        torch._dynamo.maybe_mark_dynamic(x, 0)
        with compiling(name):
            return graph(x)

    return run


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Turn what torch.compile raises into one sentence.

    Raises:
        HoldfastError: see above.
    """
    try:
        yield
    except Exception as error:
        module = type(error).__module__
        # The network's own errors come as they are
        if not module.startswith(("torch._dynamo", "torch._inductor")):
            raise
        # The inner error names what in the network is at fault; those around it say that it was compiled
        cause = getattr(error, "inner_exception", None) or error.__cause__
        cause = cause if isinstance(cause, Exception) else error
        raise Unsupported(
            f"encoder {name!r} cannot be compiled ({type(error).__name__}): {first_line(cause)}; leave --compiled out"
        ) from error
