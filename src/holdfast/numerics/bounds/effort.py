"""How much work the ranges inside a network are, how far it has come, and how much is too much."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Literal

from holdfast.numerics.bounds.footprint import footprint
from holdfast.numerics.bounds.network import Network
from holdfast.runtime.durations import format_duration
from holdfast.runtime.errors import NotCertified

COEFFICIENTS, PRODUCTS = 1e8, 4e9
"""How many coefficients, and how many products with weights, one core handles in a second, about."""

CORES = {"cpu": 1.0, "cuda": 128.0}
"""Cores that a device is worth."""

LEAST = 8
"""Coefficients that one on the image is worth where the ball is no box: its least value is searched for."""

FURTHER = 5.0
"""Times the limit up to which it is found out how much too much it is."""

LATE = 2.0
"""How many times more work than foretold, and allowed, is done before it is given up."""

Values = tuple[int, int, int]
"""A node, how many of its values are bounded, and for how many of these slopes are then looked for."""


@dataclass(frozen=True)
class Standing:
    """How far the work on ranges is.

    Attributes:
        done: seconds of the device, as work is counted.
        total: seconds foretold; 0 until they are.
        images: bounded together; a search for a radius bounds one image at several.
    """

    done: float
    total: float
    images: int

    @property
    def share(self) -> float:
        """What is done, from 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0


Listener = Callable[[Standing], object]
_listener: ContextVar[Listener | None] = ContextVar("_listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a function told how far it is: when work on ranges is foretold, when it begins, when a piece of it ends.

    Example:
        >>> with listening(print):
        ...     Effort(Network(()), Limit(1)).foretell(())
        Standing(done=0.0, total=0.0, images=1)
        Standing(done=0.0, total=0.0, images=1)
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@dataclass(frozen=True)
class Limit:
    """What the ranges inside a network may take for one image, counted, so that it is the same on every machine.

    Attributes:
        minutes: of one core, at 10⁸ coefficients and 4 · 10⁹ products with weights a second; an accelerator counts as
            128 cores.
        beyond: where that is too little: "refuse" does nothing, "intervals" takes interval arithmetic for those
            layers that do not fit any more.
    """

    minutes: float
    beyond: Literal["refuse", "intervals"] = "refuse"


USUAL = Limit(10)
"""Ten minutes, for whatever may need them."""


class Effort:
    """The work on the ranges of some nodes: two forms for each value that matters, through all nodes before it.

    Args:
        network: the network.
        limit: how much may be done for an image.
        climb: propagations that the search for the slopes of a form is worth; 0 where there is none.
        device: where.
        images: how many are bounded together.
        is_box: whether the ball is a box.
    """

    def __init__(
        self,
        network: Network,
        limit: Limit,
        climb: int = 0,
        device: str = "cpu",
        images: int = 1,
        is_box: bool = True,
    ):
        self._limit, self._most, self._climb, self._images = limit, 60 * limit.minutes, climb, images
        self._cores = CORES.get(device, CORES["cuda"])
        # Each layer asks for its cost several times, and a footprint walks through all nodes before it
        self._seconds_of = cache(lambda node: _seconds(network, node, is_box))
        self._total = self._done = 0.0

    def _cost(self, node: int, forms: float, climbing: bool) -> float:
        """Return what forms on a node take, in seconds of the device."""
        # A search, and the bound that is made of what it found
        return forms * (1 + self._climb if climbing else 1) * self._seconds_of(node) / self._cores

    def total(self, values: Iterable[Values]) -> float:
        """Return what it takes to bound values, in seconds of the device."""
        return sum(self._both(*each) for each in values)

    def fits(self, values: Iterable[Values]) -> bool:
        """Whether values can be bounded within the limit."""
        return self.total(values) <= self._most

    def _both(self, node: int, count: int, still_open: int) -> float:
        climbing = self._cost(node, 2 * still_open, True) if self._climb else 0.0
        chains = 2 if self._climb else 1  # before an ascent, CROWN's own
        return chains * self._cost(node, 2 * count, False) + climbing

    def foretell(self, values: Iterable[Values]) -> None:
        """Note what is to be done, and tell who listens that it begins.

        Args:
            values: read until the limit is passed; where that refuses, until it is clear by how much, about.

        Raises:
            NotCertified: it is more than the limit, and that refuses.
        """
        self._tell()
        # Values may come from a forecast, which takes time itself, so they are read until the answer is clear
        refuses = self._limit.beyond == "refuse"
        enough = self._most * (FURTHER if refuses else 1)
        number, total, over = 0, 0.0, False
        for each in values:
            number, total = number + each[1], total + self._both(*each)
            if over := total > enough:
                break
        if refuses and total > self._most:
            raise self._refuse(
                f"{number:,} values inside the network{' or more' if over else ''} would be bounded first, which takes "
                f"{'more than' if over else 'about'} {format_duration(total)}"
            )
        self._total = min(total, self._most)  # beyond it, intervals take their place
        self._tell()

    def affords(self, node: int, count: int, climbing: bool = False) -> bool:
        """Whether so many values of a node may be bounded.

        Raises:
            NotCertified: they take so much more than was foretold that there would be no end.
        """
        # What was foretold fits, so work is refused only where it has gone far beyond that
        needed = self._done + self._cost(node, 2 * count, climbing)
        if self._limit.beyond == "refuse" and needed > LATE * self._most:
            raise self._refuse(
                f"more values inside the network matter than was foretold: it would take more than "
                f"{format_duration(needed)}"
            )
        return self._limit.beyond == "refuse" or needed <= self._most

    def add(self, node: int, forms: float, climbing: bool = False) -> None:
        """Note that forms on a node were propagated in one image, and tell who listens."""
        self._done += self._cost(node, forms, climbing)
        self._tell()

    def _tell(self) -> None:
        # By context, so that audits at the same time tell each its own listener
        listener = _listener.get()
        if listener is not None:
            listener(Standing(self._done, self._total, self._images))

    def _refuse(self, what: str) -> NotCertified:
        return NotCertified(
            f"not certified: {what}, and this certifier may take {self._limit.minutes:g} min for a bound of an image; "
            'give it more (minutes=), less to bound (a smaller ε, an earlier layer: ?layer=), beyond="intervals" for '
            "looser bounds in that time, take crown_ibp or interval, or sampled certificates, which take any encoder"
        )


def _seconds(network: Network, node: int, is_box: bool) -> float:
    """Return what one form on a node takes a core, about."""
    form = footprint(network, node)
    coefficients = form.coefficients + (0 if is_box else LEAST * form.image)
    return coefficients / COEFFICIENTS + form.products / PRODUCTS
