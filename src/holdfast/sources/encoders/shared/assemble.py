"""From a network and what its source says about preprocessing to an `Encoder`: the last step of every source."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import nn

from holdfast.core.encoder import Encoder
from holdfast.core.geometry import ASSUMED, BY_CALLER, Geometry
from holdfast.runtime.errors import Failed, HoldfastError, Mismatch, Missing, first_line
from holdfast.sources.encoders.shared.channels import IN_WORDS, Reversed
from holdfast.sources.encoders.shared.layer import Tap
from holdfast.sources.encoders.shared.options import Common
from holdfast.sources.encoders.shared.patches import find_grid, patches_in_words
from holdfast.sources.encoders.shared.pictures import override_geometry

GIVEN = "given in the spec"
"""Who says how pictures become the input, where the user does."""


@dataclass(frozen=True)
class Preprocessing:
    """What a source's own configuration says.

    Attributes:
        mean: per-channel mean in [0, 1] pixels, or None where the source does not say.
        std: per-channel standard deviation, or None.
        source: where mean and std come from, for the record.
        shape: (channels, height, width) of the input.
        geometry: how pictures become that, or None where `Geometry` cannot express it.
        reversed: whether the network takes blue, green, red; mean and std are in the order of the pixels, before that.
        problem: what the source does to pictures that is left out here, in words; the user has to say what is None.
        of_weights: whether mean and std are what a file of weights says.
    """

    mean: float | Sequence[float] | None
    std: float | Sequence[float] | None
    source: str
    shape: tuple[int, int, int]
    geometry: Geometry | None
    reversed: bool = False
    problem: str = ""
    of_weights: bool = False


def _assume(said: Preprocessing) -> Preprocessing:
    """Return what a library says of its own weights as what is assumed of a user's, of which nobody says anything."""

    def say(source: str) -> str:
        return f"{ASSUMED} ({source}); the weights file does not say"

    geometry = said.geometry
    if geometry is not None:
        geometry = replace(geometry, source=say(geometry.source))
    return replace(said, source=say(said.source), geometry=geometry)


def assemble(
    network: nn.Module,
    common: Common,
    preprocessing: Preprocessing,
    origin: Mapping[str, object],
    *,
    layer: str | None = None,
    output: str = "network output",
    root: nn.Module | None = None,
) -> Encoder:
    """Return the encoder; run it once on two grey images, so that a wrong layer or pooling shows at once.

    Args:
        network: maps normalised images to what `layer` and `pool` reduce to [B, D].
        common: the user's options.
        preprocessing: the source's own mean, std and geometry; those of the user override them.
        origin: further facts for the record.
        layer: the source's default layer, where the user names none.
        output: what the network's own output is, for the record.
        root: where names of layers start.

    Raises:
        HoldfastError: no mean and std from anywhere, a source that does to pictures what cannot be repeated while the
            user does not say what is done instead, or an output that is not [B, D].
    """
    # What a library says of its own weights need not hold for the weights of others
    own_file = common.weights not in ("default", "random")
    if own_file and common.mean is None and preprocessing.mean is not None and not preprocessing.of_weights:
        preprocessing = _assume(preprocessing)
    chosen = common.layer or layer
    tap = Tap(network, chosen, common.pool, root=root)
    # options of the spec win over what the source says
    mean, std, source = preprocessing.mean, preprocessing.std, preprocessing.source
    if common.mean is not None and common.std is not None:
        mean, std, source = common.mean, common.std, BY_CALLER
    _check_said(preprocessing, common)
    if mean is None or std is None:
        raise Missing(
            f"encoder {common.name!r}: {source} holds no mean and std; give them, for example "
            "?mean=0.485,0.456,0.406&std=0.229,0.224,0.225, or ?mean=0&std=1 if images are not normalised"
        )
    geometry, shape = preprocessing.geometry, preprocessing.shape
    for word, values in (("means", mean), ("stds", std)):
        if isinstance(values, Sequence) and len(values) not in (1, shape[0]):
            raise Mismatch(
                f"encoder {common.name!r} takes {shape[0]} channels, {source} has {len(values)} {word}; give one, "
                f"or {shape[0]}"
            )
    geometry = override_geometry(geometry, common.pictures, shape, GIVEN, f"encoder {common.name!r}")
    # Networks that take any size were made for one
    resized = {}
    if common.size is not None:
        if tuple(common.size) != tuple(shape[1:]):
            own, now = (" x ".join(map(str, size)) for size in (shape[1:], common.size))
            resized = {"size": f"{now}; its source says {own}"}
        shape = (shape[0], *common.size)
    # two grey images show that it runs, before any audit begins, and where patches lie
    # Grey in the middle of the range, whatever the normalisation
    grey = torch.full((2, *shape), 0.5)
    grid, patches = None, {}
    if common.pool == "none":
        with _wrap_errors(common.name, shape):
            grid = find_grid(tap.eval(), grey, common.grid, common.name)
        patches = {"patches": patches_in_words(grid, tap)}
    # Channels are turned after normalisation, whose numbers are in the order of pixels
    module = Reversed(tap, shape[0]) if preprocessing.reversed else tap
    encoder = Encoder(
        module,
        mean=mean,
        std=std,
        geometry=geometry,
        name=common.name,
        # Where the network is inside what was put around it: weights are named from there
        root=next((path for path, inner in module.named_modules() if inner is (root or network)), ""),
        origin={
            **origin,
            "layer": chosen or output,
            "pool": common.pool or "none",
            **patches,
            **resized,
            "normalisation": source,
            **({"channels": IN_WORDS} if preprocessing.reversed else {}),
            "geometry": geometry.source if geometry else "none that pictures could be brought to",
            **({"pictures": geometry.in_words} if geometry else {}),
        },
        grid=grid,
    )
    with _wrap_errors(common.name, shape), torch.no_grad():
        encoder(grey)
    # The trial is no pass of an audit
    encoder.passes.forward = 0
    return encoder


def _check_said(preprocessing: Preprocessing, common: Common) -> None:
    """Raise what a source does to pictures that cannot be repeated, unless the user says what is done instead."""
    words, (high, wide), lacking = common.pictures, preprocessing.shape[1:], []
    if preprocessing.geometry is None and None in (words.size, words.resize):
        # A size from which a crop keeps 7/8, as is usual
        lacking.append(f"size={high}x{wide}&resize={round(max(high, wide) / 0.875)}")
    if preprocessing.mean is None and common.mean is None:
        lacking.append("mean=0.485,0.456,0.406&std=0.229,0.224,0.225")
    if preprocessing.problem and lacking:
        whole = " (resize=squash takes the whole picture)" if "resize" in lacking[0] else ""
        raise Missing(
            f"encoder {common.name!r}: {preprocessing.problem}; say what is done to them instead, as the network was "
            f"trained, such as ?{'&'.join(lacking)}{whole}"
        )


@contextmanager
def _wrap_errors(name: str, shape: tuple[int, int, int]) -> Iterator[None]:
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:  # whatever a foreign network raises, the user wants to know which and for what input
        raise Failed(f"encoder {name!r} fails on images {list(shape)}: {first_line(error)}") from error
