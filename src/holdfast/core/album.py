"""An album: what an observation or a measure is given to leave pictures and tables in, beside its numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core.encoder import Reps
from holdfast.core.grid import Grid

Picture = Float[Tensor, "channels height width"]

Entries = list[dict[str, Any]]
"""What a record says of pictures that were left, an entry each; the record holds them against their kind."""


@runtime_checkable
class Files(Protocol):
    """Where an audit leaves files, by their names in its folder."""

    def write(self, name: str, put: Callable[[Path], object]) -> None:
        """Write a file through `put`, which gets a path beside the final one."""
        ...

    def write_table(self, name: str, ids: Sequence[str], table: Mapping[str, Tensor]) -> None:
        """Write columns of equal length, and what their rows are called."""
        ...

    def write_picture(self, name: str, pixels: Picture) -> None:
        """Write pixels in [0, 1] as a PNG picture; with four channels the last is opacity."""
        ...


@dataclass(frozen=True)
class Album:
    """The images of an audit as pictures, and a place for files of them; no encoder pass is made for it.

    Attributes:
        files: where files go; their names begin with what they are and `slug`.
        slug: the encoder's name in files.
        number: how many of the same kind came before, for the names of files.
        readers: names of the measures and checks that read the observation.
        seed: of the audit.
        ids: the id of every image of the population.
        labels: their classes, [N]; None where the source does not know them all.
        clean: their clean representations, [N, D].
        attacked: how many of them, the first ones, are attacked.
        picture: gives the pixels of an image by its position.
        grid: how the patches of the encoder lie; None where it has none.
    """

    files: Files
    slug: str
    number: int
    readers: tuple[str, ...]
    seed: int
    ids: Sequence[str]
    labels: Int[Tensor, "population"] | None
    clean: Reps
    attacked: int
    picture: Callable[[int], Picture]
    grid: Grid | None = None
