"""`zoo:` the small networks of the papers with random weights, and three trained encoders of 8x8 digits."""

from dataclasses import dataclass
from pathlib import Path

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.geometry import Geometry
from holdfast.core.source_spec import Options, positive, take
from holdfast.runtime.errors import unknown
from holdfast.sources.encoders.shared.assemble import Preprocessing, assemble
from holdfast.sources.encoders.shared.equip import load
from holdfast.sources.encoders.shared.layer import check_layer
from holdfast.sources.encoders.shared.naming import Choice, read_choice
from holdfast.sources.encoders.shared.networks import NETWORKS, Architecture
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.stored import weights_files
from holdfast.sources.encoders.shared.weights import check_weights, fill, fix_seed, parse_numbers, read_safetensors

DIGITS = "digits_cnn"
SHIPPED = {
    "digits-supervised": "digits_cnn trained with labels on scikit-learn's digits",
    "digits-simclr": "digits_cnn trained by SimCLR, without labels",
    "digits-simclr-adv": "digits_cnn trained by SimCLR on attacked views: the hardened one",
}
"""Encoders whose weights are part of the package, in half precision (from `recipes/digits_*.toml`) -> one line each."""

_WEIGHTS = Path(__file__).parent / "weights"


@dataclass(frozen=True)
class Zoo(EncoderSource):
    """The small networks of the papers with random weights, and three trained encoders of 8x8 digits."""

    about = "small networks of the papers with random weights, and three trained digit encoders"

    def names(self) -> tuple[str, ...]:
        """Return the networks of the papers, and the trained encoders."""
        return *NETWORKS, *SHIPPED

    def check(self, name: str, options: Options) -> None:
        """Look up the network, the options, the layer and the weights."""
        dim, _, common = self._parse_options(name, options)
        check_layer(common.layer, lambda: NETWORKS[DIGITS if name in SHIPPED else name].instantiate(dim))

    def open(self, name: str, options: Options) -> Encoder:
        """Open `zoo:cnn_a_mnist?seed=0` (random), `?weights=file.safetensors`, or `zoo:digits-simclr` (trained).

        Random networks take pixels as they are (mean 0, std 1); weights from a file follow the file's metadata.
        `dim=50` is the size of the representation, of random networks whose last layer is linear (RVCL, E.2).

        Raises:
            HoldfastError: an unknown network or option, weights that do not fit or do not say mean and std.
        """
        dim, choice, common = self._parse_options(name, options)
        metadata, facts = {"mean": "0", "std": "1"}, {}
        source, weights = "zoo architecture (no normalisation)", f"random, seed {common.seed}"
        # the architecture, and shipped weights where there are any
        if name in SHIPPED:
            state, shipped = read_safetensors(_WEIGHTS / f"{name}.safetensors")
            architecture = NETWORKS[DIGITS]
        else:
            state, shipped, architecture = {}, {}, NETWORKS[name]
        # its weights: random, of a file, or shipped
        with fix_seed(common.seed):
            network = architecture.instantiate(dim)
        if common.weights not in ("default", "random"):
            checkpoint = load(network, common.weights, choice)
            metadata, weights, facts = checkpoint.metadata, common.weights, checkpoint.origin
            source = f"metadata of {common.weights}"
        elif common.weights == "default" and state:
            fill(network, state, f"zoo:{name}")
            metadata, weights, source = shipped, f"shipped: {shipped['trained']}", "metadata of the shipped weights"
        return assemble(
            network,
            common,
            preprocessing(architecture, metadata if common.mean is None else {}, source),
            {"source": f"zoo:{name}", "weights": weights, **facts},
        )

    def files(self, name: str, options: Options) -> tuple[Path, ...]:
        """Return the file of weights, where they are neither random nor shipped."""
        return weights_files(self._parse_options(name, options)[2].weights) or ()

    def _parse_options(self, name: str, options: Options) -> tuple[int | None, Choice, Common]:
        if name not in SHIPPED and name not in NETWORKS:
            raise unknown("zoo encoder", name, [*NETWORKS, *SHIPPED])
        wide = name in NETWORKS and NETWORKS[name].dim is not None
        # Only where the width is not fixed, so that `dim` is an unknown option elsewhere
        dim = take(options, "dim", positive, None) if wide else None
        choice, common = read_choice(options), read(options)
        check_weights(common.weights)
        return dim, choice, common


def preprocessing(architecture: Architecture, metadata: dict[str, str], source: str) -> Preprocessing:
    """Return the preprocessing of a zoo network, with mean and std from a weights file's metadata ("0.5,0.5,0.5")."""
    channels, height, width = architecture.shape
    mean, std = (parse_numbers(metadata, key, source.removeprefix("metadata of ")) for key in ("mean", "std"))
    geometry = Geometry((height, width), channels, min(height, width), "bicubic", "zoo architecture")
    return Preprocessing(mean, std, source, architecture.shape, geometry)
