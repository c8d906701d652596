"""A library's network with the weights and the heads of a checkpoint, and the layers that all of these have."""

from dataclasses import replace

from torch import nn

from holdfast.runtime.errors import Missing
from holdfast.sources.encoders.shared.assemble import Preprocessing
from holdfast.sources.encoders.shared.checkpoint import LAYERS, Checkpoint, read_checkpoint
from holdfast.sources.encoders.shared.naming import Choice
from holdfast.sources.encoders.shared.options import Common
from holdfast.sources.encoders.shared.weights import fill, parse_numbers


def load(network: nn.Module, path: str, choice: Choice | None = None) -> Checkpoint:
    """Fill a network from a weights file of any known format, and return what was read; its heads are left out."""
    checkpoint = read_checkpoint(path, network, choice=choice)
    fill(network, checkpoint.state, f"weights file {path!r}")
    return checkpoint


def equip(network: nn.Module, classifier: str | None, checkpoint: Checkpoint, layer: str | None) -> None:
    """Fill a network from a checkpoint, whose head takes the place of its classifier.

    Args:
        network: the network.
        classifier: where its classifier is; None: it has none.
        checkpoint: the weights, in its names.
        layer: the representation, as the user names it.

    Raises:
        HoldfastError: weights that do not fit, a layer that the file does not bring.
    """
    if classifier is None:
        fill(network, checkpoint.state, f"weights file {checkpoint.path!r}")
        return
    head = checkpoint.head(layer)
    # A layer inside the classifier needs one
    inside = layer is not None and layer != f"{classifier}.input" and f"{layer}.".startswith(f"{classifier}.")
    if head is None and inside:
        raise Missing(f"weights file {checkpoint.path!r} brings no {classifier}, expected one for layer={layer}")
    # Out of the way while the encoder is filled, whose state has none
    network.set_submodule(classifier, nn.Identity())
    fill(network, checkpoint.state, f"weights file {checkpoint.path!r}")
    network.set_submodule(classifier, head or nn.Identity())


def resolve_layer(common: Common, classifier: str | None) -> Common:
    """Return the options with a named layer, such as "projection", replaced by its place in the network.

    Raises:
        HoldfastError: a head without a file that brings it, a network without a place for it.
    """
    if common.layer not in LAYERS:
        return common
    if classifier is None:
        raise Missing(f"{common.name}: layer={common.layer} needs a network with a classifier; name another layer")
    if common.layer == "pooled":
        # What goes into the classifier is what the last pooling gives
        return replace(common, layer=f"{classifier}.input")
    if common.weights in ("default", "random"):
        raise Missing(
            f"{common.name}: layer={common.layer} is a head that a weights file brings; give ?weights=FILE, "
            "or layer=pooled"
        )
    return replace(common, layer=classifier)


def apply_metadata(preprocessing: Preprocessing, checkpoint: Checkpoint, common: Common) -> Preprocessing:
    """Return the preprocessing with the mean and std that a file says, where it says them and the user does not."""
    if common.mean is not None or not {"mean", "std"} <= checkpoint.metadata.keys():
        return preprocessing
    mean, std = (parse_numbers(checkpoint.metadata, key, checkpoint.path) for key in ("mean", "std"))
    return replace(preprocessing, mean=mean, std=std, source=f"metadata of {checkpoint.path}", of_weights=True)
