"""`file:` weights of a zoo network in a safetensors file."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.source_spec import Options, take
from holdfast.runtime.errors import Ambiguous, Conflict, HoldfastError, Missing, Unsupported, unknown
from holdfast.sources.encoders.shared.assemble import assemble
from holdfast.sources.encoders.shared.checkpoint import LAYERS, Checkpoint, align_checkpoint
from holdfast.sources.encoders.shared.heads import head
from holdfast.sources.encoders.shared.naming import Choice, read_choice
from holdfast.sources.encoders.shared.networks import NETWORKS
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.weights import check_file, fill, fix_seed, misfits, read_safetensors
from holdfast.sources.encoders.zoo import preprocessing

_HEADS = ("linear", "fc", "head", "classifier")


@dataclass(frozen=True)
class File(EncoderSource):
    """Weights of a zoo network in a safetensors file."""

    about = "a zoo network with weights from a safetensors file: file:weights.safetensors?mean=0&std=1"
    suffix = ".safetensors"

    def check(self, name: str, options: Options) -> None:
        """Look up the file, the architecture and the options."""
        self._parse_options(name, options)

    def open(self, name: str, options: Options) -> Encoder:
        """Open `file:weights.safetensors?arch=cnn_a_mnist&mean=0&std=1`.

        Without `arch`: the metadata key "arch", or the one zoo network whose tensors have exactly these names and
        shapes, whatever the width of its last linear layer. Mean and std: the options, or the metadata keys "mean" and
        "std" (comma separated). A classifier behind a ResNet is left out, and named in the origin. A head behind a
        sequence of layers could as well be its last layer: `&layer=pooled` leaves it out, `&layer=projection` takes it.

        Raises:
            HoldfastError: no such file, no network or several that fit, no mean and std, a head and no word on it.
        """
        arch, choice, common = self._parse_options(name, options)
        stored, metadata = read_safetensors(name)
        chosen, reason = _architecture(name, stored, arch, metadata, choice)
        # Building draws weights, which must not move the global generator
        with fix_seed(common.seed):
            network, checkpoint, behind = _read(chosen, name, stored, metadata, choice)
        # The head is built by itself, so that what is left must fit
        fill(network, _without(checkpoint.state, behind), f"{name!r} (as {chosen})")
        origin: dict[str, object] = {"source": f"file:{name}", "weights": name, "architecture": f"{chosen} ({reason})"}
        origin |= checkpoint.origin
        whole = _resolve_head(network, behind, common.layer, name)
        if behind and whole is network:
            origin["dropped"] = f"head behind the representation: {', '.join(sorted(behind))}"
        output = "network output" if whole is network else f"the head {', '.join(sorted(behind))}"
        # Named layers have been resolved; others are modules of the network
        common = replace(common, layer=None) if common.layer in LAYERS else common
        # Mean and std that the user says go before those of the file, of which none is then read
        metadata = metadata if common.mean is None else {}
        config = preprocessing(NETWORKS[chosen], metadata, f"metadata of {name}")
        return assemble(whole, common, config, origin, output=output)

    def files(self, name: str, options: Options) -> tuple[Path, ...]:
        """Return the file."""
        return (Path(name),)

    def _parse_options(self, name: str, options: Options) -> tuple[str | None, Choice, Common]:
        arch = take(options, "arch", str, None)
        if "weights" in options:
            raise Conflict(f"spec {options.spec!r}: file: is itself the weights; for others use zoo:NAME?weights=...")
        choice, common = read_choice(options, name), read(options)
        check_file(name)
        if arch is not None and arch not in NETWORKS:
            raise unknown("architecture", arch, NETWORKS)
        return arch, choice, common


def _architecture(
    name: str, stored: Mapping[str, Tensor], given: str | None, metadata: dict[str, str], choice: Choice
) -> tuple[str, str]:
    """Return (zoo network, why this one)."""
    for arch, reason in ((given, "given"), (metadata.get("arch"), "from the file's metadata")):
        if arch is not None and arch not in NETWORKS:
            raise unknown("architecture", arch, NETWORKS)
        if arch is not None:
            return arch, reason
    # By names and shapes alone; nothing is built with values
    fitting = [arch for arch in NETWORKS if _fits(arch, name, stored, metadata, choice)]
    if len(fitting) != 1:
        fits = f"{len(fitting)} zoo networks fit ({', '.join(fitting)})" if fitting else "no zoo network fits"
        raise Ambiguous(
            f"{name!r}: {fits} its tensors; give ?arch= one of: {', '.join(NETWORKS)}; networks of libraries take a "
            f"file as in timm:resnet50?weights={name}"
        )
    return fitting[0], "the only zoo network whose names and shapes fit"


def _fits(arch: str, name: str, stored: Mapping[str, Tensor], metadata: dict[str, str], choice: Choice) -> bool:
    with torch.device("meta"):  # shapes only: nothing is allocated or drawn
        try:
            network, checkpoint, behind = _read(arch, name, stored, metadata, choice)
        except HoldfastError:  # none of its names, or several copies of one network, which is said where it is chosen
            return False
    return not misfits(network, _without(checkpoint.state, behind))


def _read(
    arch: str, name: str, stored: Mapping[str, Tensor], metadata: dict[str, str], choice: Choice
) -> tuple[nn.Module, Checkpoint, dict[str, Tensor]]:
    """Return a zoo network as wide as the file has it, what the file holds of it, and a head behind it."""
    # On "meta" no memory is taken and nothing is drawn
    with torch.device("meta"):
        usual = NETWORKS[arch].build()
    checkpoint = align_checkpoint(name, stored, metadata, usual, choice=choice)
    last = checkpoint.state.get(list(usual.state_dict())[-1])  # its bias
    wide = None if NETWORKS[arch].dim is None or last is None or last.ndim != 1 else len(last)
    network = NETWORKS[arch].instantiate(wide)
    return network, checkpoint, _head(network, checkpoint.state, NETWORKS[arch].shape)


def _without(state: Mapping[str, Tensor], head: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key: value for key, value in state.items() if key not in head}


def _head(network: nn.Module, state: Mapping[str, Tensor], shape: tuple[int, int, int]) -> dict[str, Tensor]:
    """Return the tensors of a head that reads the representation; other extra ones are left for the error.

    Behind the representation are later items of a Sequential, or a child with a usual name of heads, whose first
    matrix takes exactly the representation's width.
    """
    # What begins otherwise than any child of the network is not its own
    own = {key.partition(".")[0] for key in network.state_dict()}
    last = max((int(child) for child, _ in network.named_children() if child.isdigit()), default=None)
    extra = [key for key in state if key.partition(".")[0] not in own]
    if last is not None:
        behind = [k for k in extra if k.partition(".")[0].isdigit() and int(k.partition(".")[0]) > last]
    else:
        behind = [key for key in extra if key.partition(".")[0] in _HEADS]
    matrices = sorted(key for key in behind if state[key].ndim == 2)
    if not matrices:
        return {}
    with torch.no_grad():
        # One image of zeros tells the width, whatever the last layer is
        width = network.eval()(torch.zeros(1, *shape, device=next(network.parameters()).device)).shape[1]
    return {key: state[key] for key in behind} if state[matrices[0]].shape[1] == width else {}


def _resolve_head(network: nn.Module, behind: Mapping[str, Tensor], layer: str | None, name: str) -> nn.Module:
    """Return the network with the head behind it, or without, as `layer` says."""
    if layer == "projection" and behind:
        return _with_head(network, behind, name)
    if layer in LAYERS and layer != "pooled":
        raise Missing(f"{name!r} brings no {layer}; leave out layer=, or say layer=pooled")
    if isinstance(network, nn.Sequential) and behind and layer is None:
        held = ", ".join(f"{key} {list(value.shape)}" for key, value in sorted(behind.items()))
        raise Ambiguous(
            f"{name!r} holds a head behind the encoder ({held}); say layer=pooled for the representation in front of "
            "it, or layer=projection for what the head gives"
        )
    return network


def _with_head(network: nn.Module, behind: Mapping[str, Tensor], name: str) -> nn.Module:
    """Return the network with the head behind it, one linear layer."""
    places = {key.rpartition(".")[0] for key in behind}
    if len(places) > 1:
        held = ", ".join(sorted(behind))
        raise Unsupported(
            f"{name!r}: expected a head of one linear layer, got {held}, between which a file says nothing; build the "
            "whole network in a module of yours: py:module:function"
        )
    (place,) = places
    layer = head({key.rpartition(".")[2]: value for key, value in behind.items()}, "relu", f"{name!r}, {place}")
    children = network.named_children() if isinstance(network, nn.Sequential) else [("encoder", network)]
    return nn.Sequential(OrderedDict([*children, (place, layer)]))
