"""Dense representations: which tokens of a layer's output are patches, and where they lie in the image."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core.grid import Grid
from holdfast.numerics.geometry.positions import PREFIX, Arrangement, arrangement
from holdfast.runtime.errors import Mismatch, Missing, Unsupported
from holdfast.sources.encoders.shared.layer import Tap


@torch.no_grad()
def find_grid(
    tap: Tap, x: Float[Tensor, "batch channel height width"], given: tuple[int, int] | None, name: str
) -> Grid:
    """Run a network once and tell its tap which values are patches; from then on it gives their tokens in a row.

    Patches are the positions of a feature map. Of tokens [B, T, D] the last ones are patches, as many as a feature map
    before them had positions (patches are usually made by a convolution), or all, or all but one, where that is a
    square; what comes before is left out: class token, registers.

    Args:
        tap: with the pooling "none".
        x: images, of the size of the encoder's input.
        given: rows and columns of patches, where the user says so.
        name: of the encoder, for errors.

    Raises:
        HoldfastError: an output without patches, or whose patches are not known to lie in one way.
    """
    # Maps before the layer tell how its tokens were made
    with _maps(tap.network, (x.shape[2], x.shape[3])) as grids:
        value = tap(x)
    shape = tuple(value.shape)
    if len(shape) not in (3, 4) or shape[0] != len(x):
        raise Unsupported(
            f"encoder {name!r}: pool=none expected a map [{len(x)}, C, rows, columns] or tokens [{len(x)}, T, D], got "
            f"{list(shape)} from {tap.source}; name a layer before the pooling, ?layer=..."
        )
    tap.places = _fit_grid(shape, given, name) if given else _infer_grid(shape, (x.shape[2], x.shape[3]), grids, name)
    features = tap.places.features(value)
    return Grid(tap.places.rows, tap.places.columns, features.shape[1])


def patches_in_words(grid: Grid, tap: Tap) -> str:
    """Return what the patches are, and what of the layer's output is not among them, for the record."""
    prefix = 0 if tap.places is None else tap.places.prefix
    return grid.in_words + (f"; {prefix} tokens before them (class token, registers) are left out" if prefix else "")


def _fit_grid(shape: tuple[int, ...], grid: tuple[int, int], name: str) -> Arrangement:
    rows, columns = grid
    # [B, C, rows, columns]
    if len(shape) == 4 and shape[2:] == grid:
        return Arrangement(rows, columns, "channels first")
    # [B, rows, columns, C]
    if len(shape) == 4 and shape[1:3] == grid:
        return Arrangement(rows, columns, "channels last")
    # Few tokens may stand before patches, such as a class token and registers
    if len(shape) == 3 and 0 <= (prefix := shape[1] - rows * columns) <= PREFIX:
        return Arrangement(rows, columns, "tokens", prefix)
    fits = f"{shape[1]} tokens" if len(shape) == 3 else f"a map {list(shape)}"
    raise Mismatch(
        f"encoder {name!r}: grid={rows}x{columns}, {rows * columns} patches, does not fit {fits}"
        + (f" (at most {PREFIX} before them are not patches)" if len(shape) == 3 else "")
    )


def _infer_grid(shape: tuple[int, ...], size: tuple[int, int], grids: list[tuple[int, int]], name: str) -> Arrangement:
    places = arrangement(shape, size, grids)
    if places is None and len(shape) == 4:  # in other proportions than the image
        places = Arrangement(shape[2], shape[3], "channels first")
    # More than a class token before them is believed only where a map had these rows and columns
    if places is None or (places.prefix > 1 and (places.rows, places.columns) not in grids):
        raise Missing(
            f"encoder {name!r}: pool=none cannot tell how {shape[1]} tokens lie in the image; say so, as in "
            "?grid=14x14 (rows x columns; what comes before them is left out)"
        )
    return places


@contextmanager
def _maps(network: nn.Module, size: tuple[int, int]) -> Iterator[list[tuple[int, int]]]:
    """Fill a list with rows and columns of the feature maps of a pass, in its order."""
    grids: list[tuple[int, int]] = []

    def hook(module: nn.Module, args: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim == 4 and (places := arrangement(output.shape, size)):
            grids.append((places.rows, places.columns))

    # before other hooks: one of them may end the pass at its layer
    handles = [module.register_forward_hook(hook, prepend=True) for module in network.modules()]
    try:
        yield grids
    finally:
        for handle in handles:
            handle.remove()
