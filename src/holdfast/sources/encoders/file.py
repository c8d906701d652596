"""`file:` weights of a zoo network in a safetensors file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.spec_string import Options, take
from holdfast.runtime.errors import HoldfastError, unknown
from holdfast.sources.encoders.shared.assemble import assemble
from holdfast.sources.encoders.shared.networks import NETWORKS
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.weights import check_weights, fill, misfits, read_safetensors, seeded
from holdfast.sources.encoders.zoo import preprocessing

_OPENED = re.compile(r"^(module\.)?network\.")
"""What stands before the names of a network in the state of an encoder that was opened."""
_HEADS = ("linear", "fc", "head", "classifier")


@dataclass(frozen=True)
class File(EncoderSource):
    """Weights of a zoo network in a safetensors file."""

    about = "a zoo network with weights from a safetensors file: file:weights.safetensors?mean=0&std=1"
    suffix = ".safetensors"

    def check(self, name: str, options: Options) -> None:
        """Look up the file, the architecture and the options."""
        self._asked(name, options)

    def open(self, name: str, options: Options) -> Encoder:
        """Open `file:weights.safetensors?arch=cnn_a_mnist&mean=0&std=1`.

        Without `arch`: the metadata key "arch", or the one zoo network whose tensors have exactly these names and
        shapes, whatever the width of its last linear layer. Mean and std: the options, or the metadata keys "mean" and
        "std" (comma separated). A linear head behind the representation is dropped, and named in the origin.

        Raises:
            HoldfastError: no such file, no network or several that fit, no mean and std.
        """
        arch, common = self._asked(name, options)
        state, metadata = read_safetensors(name)
        state = {_OPENED.sub("", key): value for key, value in state.items()}
        chosen, reason = _architecture(name, state, arch, metadata.get("arch"))
        with seeded(common.seed):
            network = NETWORKS[chosen].made(_dim(chosen, state))
        head = _head(network, state, NETWORKS[chosen].shape)
        fill(network, {key: value for key, value in state.items() if key not in head}, f"{name!r} (as {chosen})")
        origin: dict[str, object] = {"source": f"file:{name}", "weights": name, "architecture": f"{chosen} ({reason})"}
        if head:
            origin["dropped"] = f"head behind the representation: {', '.join(sorted(head))}"
        source = f"metadata of {name}"
        return assemble(network, common, preprocessing(NETWORKS[chosen], metadata, source), origin)

    def files(self, name: str, options: Options) -> tuple[Path, ...]:
        """Return the file."""
        return (Path(name),)

    def _asked(self, name: str, options: Options) -> tuple[str | None, Common]:
        arch = take(options, "arch", str, None)
        common = read(options)
        if common.weights != "default":
            raise HoldfastError(
                f"spec {options.spec!r}: file: is itself the weights; for others use zoo:NAME?weights=..."
            )
        check_weights(name)
        if arch is not None and arch not in NETWORKS:
            raise unknown("architecture", arch, NETWORKS)
        return arch, common


def _architecture(name: str, state: Mapping[str, Tensor], chosen: str | None, noted: str | None) -> tuple[str, str]:
    """Return (zoo network, why this one)."""
    for arch, reason in ((chosen, "given"), (noted, "from the file's metadata")):
        if arch is not None and arch not in NETWORKS:
            raise unknown("architecture", arch, NETWORKS)
        if arch is not None:
            return arch, reason
    fitting = [arch for arch in NETWORKS if _fits(arch, state)]
    if len(fitting) != 1:
        fits = f"{len(fitting)} zoo networks fit ({', '.join(fitting)})" if fitting else "no zoo network fits"
        raise HoldfastError(f"{name!r}: {fits} its tensors; give ?arch= one of: {', '.join(NETWORKS)}")
    return fitting[0], "the only zoo network whose names and shapes fit"


def _fits(arch: str, state: Mapping[str, Tensor]) -> bool:
    with torch.device("meta"):  # shapes only: nothing is allocated or drawn
        network = NETWORKS[arch].made(_dim(arch, state))
    head = _head(network, state, NETWORKS[arch].shape)
    return not misfits(network, {key: value for key, value in state.items() if key not in head})


def _dim(arch: str, state: Mapping[str, Tensor]) -> int | None:
    """Return the width of the last linear layer in the file, where the network may have another than usual."""
    if NETWORKS[arch].dim is None:
        return None
    with torch.device("meta"):
        last = list(NETWORKS[arch].build().state_dict())[-1]  # its bias
    return len(state[last]) if last in state and state[last].ndim == 1 else None


def _head(network: nn.Module, state: Mapping[str, Tensor], shape: tuple[int, int, int]) -> set[str]:
    """Return the keys of a head that reads the representation; other extra keys are left for the error.

    Behind the representation are later items of a Sequential, or a child with a usual name of heads, whose first
    matrix takes exactly the representation's width.
    """
    own = {key.partition(".")[0] for key in network.state_dict()}
    last = max((int(child) for child, _ in network.named_children() if child.isdigit()), default=None)
    extra = [key for key in state if key.partition(".")[0] not in own]
    if last is not None:
        behind = [k for k in extra if k.partition(".")[0].isdigit() and int(k.partition(".")[0]) > last]
    else:
        behind = [key for key in extra if key.partition(".")[0] in _HEADS]
    matrices = sorted(key for key in behind if state[key].ndim == 2)
    if not matrices:
        return set()
    with torch.no_grad():
        width = network.eval()(torch.zeros(1, *shape, device=next(network.parameters()).device)).shape[1]
    return set(behind) if state[matrices[0]].shape[1] == width else set()
