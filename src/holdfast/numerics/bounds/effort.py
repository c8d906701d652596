"""How much work the ranges inside a network are, how far it has come, and how much is too much."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate

import torch

from holdfast.numerics.bounds.network import Network
from holdfast.runtime.errors import NotCertified

MOST = {"cpu": 2.0**41, "cuda": 2.0**48}
"""Coefficients that may be computed for one image: half a day of one core (5e7 a second), or of an accelerator."""

Listener = Callable[[float], object]
_listener: ContextVar[Listener | None] = ContextVar("_listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a function told the share that is done when the work on ranges begins and when a piece of it ends.

    Example:
        >>> with listening(print):
        ...     _ = Effort(Network(()), values={}, rounds=1, device="cpu")
        1.0
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class Effort:
    """The work on the ranges of some nodes: two forms for each value that matters, through all nodes before it.

    Args:
        network: the network.
        values: how many values of which nodes matter, in one image.
        rounds: how often each form is propagated.
        device: where, for the limit.

    Raises:
        NotCertified: more coefficients than `MOST`.
    """

    def __init__(self, network: Network, values: Mapping[int, int], rounds: int, device: str):
        self._reach = list(accumulate(torch.Size(node.shape).numel() for node in network.nodes))
        self._total = sum(self._cost(node, 2 * count) for node, count in values.items())
        self._done = 0.0
        most, coefficients = MOST.get(device, MOST["cuda"]), rounds * self._total
        if coefficients > most:
            raise NotCertified(
                f"not certified: {sum(values.values()):,} values inside the network would be bounded first, with "
                f"{coefficients:.0e} coefficients for each image, more than the {most:.0e} of about half a day; take "
                "crown_ibp or interval, an earlier layer (?layer=), or the sampled certificates, which take any encoder"
            )
        self._tell()

    def _cost(self, node: int, forms: float) -> float:
        return forms * self._reach[node]

    def add(self, node: int, forms: float) -> None:
        """Note that forms on a node were propagated in one image, and tell who listens."""
        self._done += self._cost(node, forms)
        self._tell()

    def _tell(self) -> None:
        listener = _listener.get()
        if listener is not None:
            listener(min(1.0, self._done / self._total) if self._total else 1.0)
