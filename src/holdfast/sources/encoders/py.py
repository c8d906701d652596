"""`py:` an encoder that your own Python code builds."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.geometry import BY_CALLER
from holdfast.core.source_spec import Options, sides, take
from holdfast.runtime.errors import Conflict, Failed, Missing
from holdfast.runtime.foreign import foreign
from holdfast.runtime.network import check_network, unwrap
from holdfast.sources.encoders.shared.assemble import Preprocessing, assemble
from holdfast.sources.encoders.shared.equip import load
from holdfast.sources.encoders.shared.layer import Reshaped, Tap
from holdfast.sources.encoders.shared.naming import Choice, read_choice
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.own_module import look_up
from holdfast.sources.encoders.shared.weights import check_weights, fix_seed


@dataclass(frozen=True)
class Py(EncoderSource):
    """An encoder that your own Python code builds."""

    about = "your own function: py:package.module:factory returns an Encoder, or a module and ?mean=&std="

    def runs(self, name: str, options: Options) -> str:
        """Return the code that runs: the module."""
        return "a Python module"

    def check(self, name: str, options: Options) -> None:
        """Look up the module, its factory, the options and the weights."""
        self._parse_options(name, options)

    def open(self, name: str, options: Options) -> Encoder:
        """Open `py:package.module:factory`: calls `factory()`; modules are also looked for in the current folder.

        The factory returns an `Encoder` (whose own mean, std and geometry hold), or any `nn.Module` that maps
        normalised images to [B, D], and then `?mean=...&std=...` are required. It is called with torch's generator
        seeded by `seed=`. `input=16` or `input=8x32` is the shape that a module takes whose inputs are no images; they
        come to it as [B, 1, 16, 1] and are reshaped, with one mean and one std. `resize=256&crop=224` or
        `resize=squash&size=224` say how pictures become the input of a module.

        Raises:
            HoldfastError: a module or factory that is not there or fails, mean and std absent or superfluous, words
                about pictures that are not all of them.
        """
        shape, choice, common, build = self._parse_options(name, options)
        # Seeded, for the factory draws the weights
        with foreign(f"{options.spec}: {name.rpartition(':')[2]!r}", "called", wrap=True), fix_seed(common.seed):
            result = build()
        taken: dict[str, object] = {}
        if isinstance(result, nn.Module):
            result = unwrap(result)
            check_network(result, common.name)
            if common.weights not in ("default", "random"):
                # A file holds the weights of the network, and not of an encoder around it
                inside = result.module.get_submodule(result.root) if isinstance(result, Encoder) else result
                taken = {"weights": common.weights, **load(inside, common.weights, choice).origin}
        origin = {"source": f"py:{name}", "layer": common.layer or "network output", "pool": common.pool or "none"}
        # an Encoder brings all that options could say
        if isinstance(result, Encoder):
            if common.layer or common.pool or common.grid or common.mean or common.pictures.given or shape:
                raise Conflict(
                    f"{options.spec}: the factory returns an Encoder, which has its own layer, mean, std and geometry; "
                    "leave out layer, pool, mean, std, input, size, resize, crop and interpolation, or return the bare "
                    "module"
                )
            result.name = common.name
            result.origin = {**origin, "normalisation": BY_CALLER, **result.origin, **taken}
            return result
        # a bare module needs its preprocessing
        if not isinstance(result, nn.Module):
            raise Failed(f"{options.spec}: expected an Encoder or an nn.Module, got {type(result).__name__}")
        if common.mean is None or common.std is None:
            raise Missing(f"{options.spec} returns a bare module: give ?mean=...&std=... (mean=0&std=1 for none)")
        network, origin = result if shape is None else Reshaped(result, shape), origin | taken
        if not common.pictures.given and common.pool != "none":
            origin["normalisation"] = BY_CALLER
            tap = Tap(network, common.layer, common.pool, root=result)
            # Names in files of weights begin at what the factory made
            root = next(path for path, module in tap.named_modules() if module is result)
            return Encoder(tap, mean=common.mean, std=common.std, name=common.name, origin=origin, root=root)
        # how pictures become its input is for the spec to say
        if common.size is None or common.pictures.resize is None:
            wanted = "pictures" if common.pictures.given else "the size of pictures, on which its patches depend"
            raise Missing(
                f"{options.spec}: a bare module says nothing of {wanted}; give all of it, as in resize=256&crop=224 or "
                "resize=squash&size=224"
            )
        preprocessing = Preprocessing(None, None, BY_CALLER, (_channels(network, common), *common.size), None)
        return assemble(network, common, preprocessing, origin, root=result)

    def _parse_options(self, name: str, options: Options) -> tuple[tuple[int, ...] | None, Choice, Common, Any]:
        """Return the shape of the input, the options and the factory, once its module is imported."""
        shape = take(options, "input", sides, None)
        choice, common = read_choice(options), read(options)
        check_weights(common.weights)
        return shape, choice, common, look_up(options.spec, name, "py:package.module:factory")


def _channels(network: nn.Module, common: Common) -> int:
    """Return how many means or stds there are; where one stands for all channels, 3 if it takes colours, else 1."""
    if (told := max(len(common.mean or ()), len(common.std or ()))) > 1:
        return told
    try:
        with torch.no_grad():
            network.eval()(torch.zeros(2, 3, *(common.size or ())))
    except Exception:  # whatever a network raises; `assemble` says what it raises on grey pictures too
        return 1
    return 3
