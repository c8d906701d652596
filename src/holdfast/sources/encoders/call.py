"""`call:` a function of your own, of arrays of images: whatever it does inside; no gradient."""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdfast.core.encoder import Encoder
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.function_fingerprint import fingerprint
from holdfast.core.geometry import BY_CALLER
from holdfast.core.outside import Outside, Wanted
from holdfast.core.source_spec import Options
from holdfast.runtime.errors import BadValue, HoldfastError, Missing
from holdfast.sources.encoders.shared.options import Common
from holdfast.sources.encoders.shared.own_module import look_up
from holdfast.sources.encoders.shared.runtime import AS_GIVEN, assemble_given, describe_wanted, read_wanted

COMMAND = "HOLDFAST_COMMAND"
"""Environment variable by which the workers of a command know that they are its own; they inherit it."""


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
        return assemble_given(network, common, origin, options.spec, "a function")

    def _parse_options(self, name: str, options: Options) -> tuple[Callable[..., Any], Wanted, Common]:
        wanted, common = read_wanted(options)
        function = look_up(options.spec, name, "call:package.module:function")
        if not callable(function):
            raise BadValue(f"{options.spec}: expected a function, got {type(function).__name__}")
        return function, wanted, common


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
        raise Missing(f"model: expected mean and std together, or neither, got mean={mean}, std={std}")
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
