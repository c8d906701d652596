"""What the functions of Python have in common: networks and images that are open already, and where a run is kept."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.core import Encoder, ImageSource
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import BadValue, Conflict, Missing
from holdfast.runtime.listener import Listener
from holdfast.runtime.option import Option
from holdfast.runtime.progress import LIFE, Bars
from holdfast.runtime.screen import Screen
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.shared.torch_dataset import TorchDataset
from holdfast.sources.encoders.call import function_encoder
from holdfast.workflows.monitor.snapshot import freeze_copy

Model = nn.Module | str | Callable[[np.ndarray], Any]
"""An `Encoder`, any network that maps normalised images [B, C, H, W] to representations [B, D], an encoder spec, or a
function of arrays of images in [0, 1], [B, C, H, W] in float32, that has no gradient."""

Numbers = float | Sequence[float] | Tensor | np.ndarray
"""One number, or one per channel."""

Labels = Tensor | np.ndarray | Sequence[int] | None
"""A class for each image of an array."""

Data = Any
"""Images: a tensor [N, C, H, W], an array [N, H, W, C], a folder, a data spec, a torch Dataset, or an `ImageSource`."""


@dataclass(frozen=True, kw_only=True)
class Normalised(metaclass=Checked):
    """What networks do not say themselves."""

    mean: Annotated[
        Numbers | None,
        Option(
            "Per channel, what your preprocessing subtracts from [0, 1] pixels. A bare network needs it, mean=0 and "
            "std=1 where nothing is done; an `Encoder` and a spec have their own."
        ),
        "signed",
    ] = None
    std: Annotated[Numbers | None, Option("Per channel, what it divides by.")] = None


@dataclass(frozen=True, kw_only=True)
class InMemory(Normalised):
    """What networks and arrays do not say themselves."""

    labels: Annotated[
        Labels,
        Option("A class for each image of an array, for measures that read them; other images bring their own."),
        "signed",
    ] = None


@dataclass(frozen=True, kw_only=True)
class Kept(metaclass=Checked):
    """Where a call computes, what it keeps, and what it tells meanwhile."""

    device: Annotated[
        str | torch.device | None,
        Option("Where to compute, as torch names it.", default="where the (first) network is, cpu for specs"),
    ] = None
    out: Annotated[
        str | os.PathLike[str] | None,
        Option(
            "Folder of the run, where a call that was interrupted goes on.",
            default="a temporary one, which lives as long as what is returned",
        ),
    ] = None
    quiet: Annotated[
        bool, Option("Show no progress; else bars on a terminal, and elsewhere a line a minute, on stderr.")
    ] = False


def open_encoders(model: Any, mean: Any, std: Any) -> dict[str, Encoder | str]:
    """Return encoders by name, specs as they are; networks are copied."""
    # By the names of the caller, or by their own, numbered where several have one
    if isinstance(model, Mapping):
        encoders = {
            str(name): _add_label(network, str(name)) if isinstance(network, str) else network
            for name, network in model.items()
        }
    else:
        several = list(model) if isinstance(model, Sequence) and not isinstance(model, (str, nn.Module)) else [model]
        encoders: dict[str, Any] = {}
        for network in several:
            name = _name_of(network)
            if isinstance(network, str) and name in encoders:
                raise BadValue(f"expected different encoders, got {name!r} twice; give each once")
            number = sum(key == name or key.startswith(f"{name} ") for key in encoders)
            encoders[f"{name} {number + 1}" if number else name] = network

    # Bare networks become encoders, with the normalisation of the caller
    if (mean is not None or std is not None) and not any(_is_bare(network) for network in encoders.values()):
        raise Conflict(
            "mean and std: expected none, since an Encoder and a spec have their own (?mean=0.5&std=0.25), got "
            f"mean={mean}, std={std}; leave them out"
        )
    return {
        name: network if isinstance(network, str) else _freeze_model(network, name, mean, std)
        for name, network in encoders.items()
    }


def specs_of(encoders: Mapping[str, Encoder | str]) -> list[str]:
    """Return what encoders are called in a plan: the names of those that are open, the specs of others."""
    return [network if isinstance(network, str) else name for name, network in encoders.items()]


def choose_device(asked: str | torch.device | None, encoders: Mapping[str, Encoder | str]) -> str:
    """Return where to compute: as asked, else where the first network is that is open, else on the CPU."""
    devices = [network.device for network in encoders.values() if isinstance(network, Encoder)]
    return str(asked or next(iter(devices), "cpu"))


def _name_of(network: Any) -> str:
    if isinstance(network, str):
        return network
    if isinstance(network, Encoder):
        return network.name
    # A function by its own name
    return type(network).__name__ if isinstance(network, nn.Module) else getattr(network, "__name__", "function")


def _is_bare(model: Any) -> bool:
    return not isinstance(model, (str, Encoder))


def _add_label(spec: str, name: str) -> str:
    """Return a spec with a label."""
    return f"{spec}{'&' if '?' in spec else '?'}label={quote(name, safe='')}"


def _freeze_model(model: Any, name: str, mean: Any, std: Any) -> Encoder:
    if not isinstance(model, nn.Module):
        if callable(model) and not isinstance(model, type):
            return function_encoder(model, name, mean, std)
        raise BadValue(
            f"model: expected a torch module, an Encoder, a spec such as timm:resnet50, a function of an array of "
            f"images, or several of them, got {type(model).__name__}"
        )
    if not isinstance(model, Encoder) and (mean is None or std is None):
        raise Missing(
            f"model: a bare network ({name}) needs mean and std, what its preprocessing subtracts from [0, 1] pixels "
            f"and divides by; got mean={mean}, std={std}; say mean=0, std=1 where nothing is done, for most networks "
            "of ImageNet mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]"
        )
    copied = freeze_copy(model) if isinstance(model, Encoder) else freeze_copy(model, mean, std)
    copied.name = name
    return copied


def open_source(argument: str, images: Any, labels: Any) -> tuple[ImageSource | None, str | None]:
    """Return images that are open already, and how the record calls them; a spec is opened by the audit itself."""
    if isinstance(images, (Tensor, np.ndarray)):
        kind = "a tensor" if isinstance(images, Tensor) else "an array"
        title = f"{kind} {list(images.shape)}"
        if isinstance(images, Tensor):
            images = images.float() if images.dtype == torch.bfloat16 else images
            layout = "NCHW" if images.ndim == 4 else None
            return Arrays(images, labels, layout=layout, name=title), title
        return Arrays(images, labels, name=title), title
    if labels is not None:
        raise Conflict(
            f"labels: expected {argument} to be a tensor or an array beside them, got {type(images).__name__}; folders "
            "of classes and datasets bring their own"
        )
    if images is None or isinstance(images, str):
        return None, images
    if isinstance(images, os.PathLike):
        return None, os.fspath(images)
    source = images if isinstance(images, ImageSource) else TorchDataset(images)
    return source, str(source)


@contextmanager
def run_folder(out: str | os.PathLike[str] | None) -> Iterator[str]:
    """Give the folder of a run: `out`, or a temporary one, which is deleted where the run fails."""
    folder = tempfile.mkdtemp(prefix="holdfast-") if out is None else os.fspath(out)
    try:
        yield folder
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def listen(quiet: bool) -> Iterator[Listener]:
    """Give bars on a terminal; elsewhere a line now and then, once it takes longer."""
    with Bars(Screen(stderr=True), quiet or sys.stderr is None, patience=LIFE) as bars:
        yield bars
