"""`call:` a function of your own, of arrays of images: whatever it does inside; no gradient."""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import torch

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.function_fingerprint import fingerprint
from holdfast.core.geometry import BY_CALLER
from holdfast.core.outside import BYTES, Outside, Wanted
from holdfast.core.source_spec import Options, one_of, positive, take
from holdfast.runtime.errors import HoldfastError
from holdfast.sources.encoders.shared.assemble import Preprocessing, assemble
from holdfast.sources.encoders.shared.options import Common, read
from holdfast.sources.encoders.shared.own_module import look_up
from holdfast.sources.encoders.shared.runtime import REAL, TAKES, describe_wanted
from holdfast.sources.onnx.file import LAYOUTS

COMMAND = "HOLDFAST_COMMAND"
"""Environment variable by which the workers of a command know that they are its own; they inherit it."""

AS_GIVEN = "pixels in [0, 1], as the function is given them"
BYTES_GIVEN = "pixels from 0 to 255, as the function is given them"


@dataclass(frozen=True)
class Call(EncoderSource):
    """A function of your own, of arrays of images, whatever it does inside."""

    about = "your own function of an array of images, no gradient: call:package.module:function?dtype=uint8&layout=nhwc"
    differentiable = False

    def runs(self, name: str, options: Options) -> str:
        """Return the code that runs: the module."""
        return "a Python module"

    def check(self, name: str, options: Options) -> None:
        """Look up the module, the function and the options."""
        function, *_ = self._parse_options(name, options)
        identify(function, name)  # before workers start, so that they inherit it

    def open(self, name: str, options: Options) -> Encoder:
        """Open `call:package.module:function`; modules are also looked for in the current folder.

        The function maps an array of images, [N, C, H, W] of float32 in [0, 1], to vectors, [N, D], of any array
        library. `layout=nhwc`, `channels=bgr` and `dtype=uint8` (pixels from 0 to 255), `float16` or `float64` say that
        it takes others; `mean=` and `std=` what is done to pixels before. `batch=1` is the number of images that it
        takes at a time, always. Where images are pictures, `resize=256&crop=224` or `resize=squash&size=224` say how
        they become the input.

        Raises:
            HoldfastError: a module or function that is not there, options that contradict each other, words about
                pictures that are not all of them.
        """
        function, wanted, common = self._parse_options(name, options)
        network = Outside(partial(_same, function), wanted, identify(function, name))
        origin = {"source": f"call:{name}", **describe_wanted(wanted)}
        # Nothing is done to pixels unless the spec says so: the function is the whole pipeline
        mean, std = common.mean or (0.0,), common.std or (1.0,)
        source = BY_CALLER if common.mean else BYTES_GIVEN if wanted.quantisation else AS_GIVEN
        if not common.pictures.given:
            return Encoder(network, mean=mean, std=std, name=common.name, origin=origin | {"normalisation": source})
        if common.size is None or common.pictures.resize is None:
            raise HoldfastError(
                f"{options.spec}: a function says nothing of pictures; give all of it, as in resize=256&crop=224 or "
                "resize=squash&size=224"
            )
        # Grey ones are for networks that take one channel, which a function is asked once
        channels = len(mean) if len(mean) > 1 else _channels(network, common.size)
        return assemble(network, common, Preprocessing(mean, std, source, (channels, *common.size), None), origin)

    def _parse_options(self, name: str, options: Options) -> tuple[Callable[..., Any], Wanted, Common]:
        layout = cast(Any, take(options, "layout", lambda word: one_of(*LAYOUTS)(word.lower()), "nchw"))
        channels = cast(Any, take(options, "channels", lambda word: one_of("rgb", "bgr")(word.lower()), "rgb"))
        dtype = take(options, "dtype", one_of(*REAL, "uint8"), "float32")
        batch = take(options, "batch", positive, None)
        common = read(options, takes=TAKES)
        if dtype == "uint8" and common.mean is not None:
            raise HoldfastError(f"{options.spec}: dtype=uint8 is pixels from 0 to 255 as they are; leave out mean, std")
        function = look_up(options.spec, name, "call:package.module:function")
        if not callable(function):
            raise HoldfastError(f"{options.spec}: expected a function, got {type(function).__name__}")
        quantisation = BYTES if dtype == "uint8" else None
        return function, Wanted(layout, channels, dtype, batch, quantisation), common


def function_encoder(function: Callable[..., Any], name: str, mean: Any, std: Any) -> Encoder:
    """Return the encoder of a function that takes images as they are, [N, C, H, W] of float32 in [0, 1].

    Args:
        function: maps them to vectors, [N, D].
        name: how the encoder is called.
        mean: what is subtracted before, one number or one per channel; None with `std`: nothing is done.
        std: what it is divided by.

    Raises:
        HoldfastError: one of mean and std alone.
    """
    if (mean is None) != (std is None):
        raise HoldfastError(f"model: expected mean and std together, or neither, got mean={mean}, std={std}")
    network = Outside(partial(_same, function), Wanted(), identify(function, name))
    origin = {"source": f"a function, {name}", **describe_wanted(network.wanted)}
    if mean is None:
        return Encoder(network, mean=0, std=1, name=name, origin=origin | {"normalisation": AS_GIVEN})
    return Encoder(network, mean=mean, std=std, name=name, origin=origin | {"normalisation": BY_CALLER})


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as it is: unlike a runtime it has nothing to start."""
    return function


def identify(function: Callable[..., Any], name: str) -> bytes:
    """Return what differs where a function may return something else.

    Where it reads what cannot be told, such as a session or a client, that is the command itself with the workers that
    it starts: what another command has stored of it is never taken for its answers.
    """
    try:
        return fingerprint(function, name).encode()
    except (HoldfastError, TypeError, OSError):
        return f"{name} {os.environ.setdefault(COMMAND, secrets.token_hex(8))}".encode()


def _channels(network: Outside, size: tuple[int, int]) -> Literal[1, 3]:
    """Return 3 where a function takes colours, else 1."""
    try:
        network(torch.full((1, 3, *size), 0.5))
    except Exception:  # whatever it raises; `assemble` says what it raises on grey pictures too
        return 1
    return 3
