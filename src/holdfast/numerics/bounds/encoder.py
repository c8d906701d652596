"""What bounds ask of an encoder: a network behind a normalisation, and its name."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class Encoder(Protocol):
    """Every `holdfast.core.Encoder` is one.

    Attributes:
        name: for errors.
        draws: how many draws of its network its representation is the mean of; None where it draws nothing.
        module: the network, from normalised pixels to representations.
        normalisation: `identity`, whether it does nothing; else its `mean` and `std`.
    """

    name: str
    draws: int | None
    module: nn.Module
    normalisation: Any

    @property
    def device(self) -> torch.device:
        """Where it is."""
        ...

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield its parameters."""
        ...

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield its buffers."""
        ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Yield the modules that it is made of."""
        ...
