"""Randomised encoders: which random numbers a pass draws, the same ones for every image, and the mean over draws."""

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.numerics.rng import Rng
from holdfast.runtime.errors import Failed, HoldfastError, first_line

GROUPS = 4
"""Further groups of draws by which what was found is judged again, to see how much the draws decide."""


def redrawn(name: str, group: int) -> str:
    """Return the name of what is observed as `name` by another group of draws."""
    return f"redrawn{group}.{name}"


@dataclass
class _Search:
    """A search that is running: where its draws come from, and how many passes it has made.

    Attributes:
        stream: of random numbers, of no image.
        passes: made so far; each draws numbers of its own.
    """

    stream: Rng
    passes: int = 0


# Context variables: searches may run in several threads
_search: ContextVar[_Search | None] = ContextVar("search", default=None)
_naive: ContextVar[bool] = ContextVar("naive", default=False)
_group: ContextVar[int] = ContextVar("group", default=0)


@contextmanager
def searching(rng: Rng) -> Iterator[None]:
    """Make passes that belong to a search: each draws fresh numbers, and none of those by which its result is judged.

    Args:
        rng: that of the search; ids of images are left out, so that shards do not matter.
    """
    token = _search.set(_Search(Rng(rng.seed, (*rng.path, "draws of a search"))))
    try:
        yield
    finally:
        _search.reset(token)


@contextmanager
def naively() -> Iterator[None]:
    """Make searches that take the encoder for a plain network: one draw in each pass, no straight-through gradient."""
    token = _naive.set(True)
    try:
        yield
    finally:
        _naive.reset(token)


@contextmanager
def use_draw_group(group: int) -> Iterator[None]:
    """Judge by one of the further groups of draws, from 1; no two groups have a draw in common."""
    token = _group.set(group)
    try:
        yield
    finally:
        _group.reset(token)


def is_naive() -> bool:
    """Whether a search is running that takes the encoder for a plain network."""
    return _naive.get() and _search.get() is not None


def draw_seeds(draws: int, seed: int, *, judged: bool = False) -> list[int]:
    """Return the seeds of the draws of the next pass.

    Args:
        draws: how many a pass has; a naive search has one.
        seed: of the run.
        judged: make the pass with the draws by which searches are judged, although one is running.
    """
    search = _search.get()
    # Group g has the draws from g · k on; group 0 is the encoder's own
    if search is None or judged:
        stream, first = Rng(seed, ("draws of the encoder",)), _group.get() * draws
    else:
        # Each pass of a search is a stream of its own (expectation over transformation)
        stream, first, draws = search.stream.child(search.passes), 0, 1 if is_naive() else draws
        search.passes += 1
    return [stream.number(str(first + draw)) for draw in range(draws)]


class MeanOfDraws:
    """(1/k) Σ_j f(x, ω_j): all images of a pass see the same ω_j, so none depends on its batch.

    With torch.vmap the network runs on the batch and draws numbers of the shape of one image. What cannot run so (it
    works in place, or decides by the values of a tensor) runs image by image, each from the same seed: the same
    numbers, slowly.

    Args:
        call: from images [B, C, H, W] to what the network gives, [B, D].

    Attributes:
        one_by_one: why it runs image by image; "" where it does not.
    """

    def __init__(self, call: Callable[[Tensor], Any]):
        self._call = call
        self.one_by_one = ""

    def __call__(self, x: Tensor, seeds: Sequence[int]) -> Any:
        """Return the mean over the draws of some seeds; what is no tensor as it is, for the encoder to refuse."""
        # A running sum: one draw at a time is in memory
        total: Any = None
        for seed in seeds:
            reps = self.draw(x, seed)
            if not isinstance(reps, Tensor):
                return reps
            if total is not None and total.shape != reps.shape:
                raise Failed(
                    "the draws of one image give representations of different sizes, "
                    f"{list(total.shape[1:])} and {list(reps.shape[1:])}; expected one size"
                )
            total = reps if total is None else total + reps
        return total / len(seeds)

    def draw(self, x: Tensor, seed: int) -> Any:
        """Return the representations of one draw."""
        if not self.one_by_one:
            try:
                with _seed_temporarily(seed, x.device), warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="There is a performance drop")  # torch's own loop
                    # "same": each random number is drawn once for the whole batch, in the shape of one image
                    return torch.vmap(self._of_one, randomness="same")(x)
            except (HoldfastError, torch.OutOfMemoryError):
                raise
            except Exception as error:  # whatever vmap cannot do; what the network itself raises comes again
                reason = first_line(error)
            rows = self._each(x, seed)
            # Noted only once that has worked: otherwise the network failed, and not vmap
            self.one_by_one = reason
            return rows
        return self._each(x, seed)

    def _of_one(self, image: Tensor) -> Tensor:
        reps = self._call(image[None])
        if not isinstance(reps, Tensor):
            raise TypeError(f"its output is a {type(reps).__name__}")
        return reps[0]

    def _each(self, x: Tensor, seed: int) -> Any:
        rows = []
        # Each image anew from the seed: the numbers that vmap draws once for all
        for image in x.split(1):
            with _seed_temporarily(seed, x.device):
                rows.append(self._call(image))
        # No tensor: the encoder refuses it
        return torch.cat(rows) if all(isinstance(row, Tensor) for row in rows) else rows[0]


@contextmanager
def _seed_temporarily(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the generators of torch, Python and NumPy, and leave them as they were."""
    # Networks may draw from Python's and NumPy's generators as well
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # NumPy's seeds have 32 bits
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
