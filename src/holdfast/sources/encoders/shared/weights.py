"""Weights: seeded random ones, safetensors files, and downloads that may fail."""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from holdfast.runtime.errors import HoldfastError, first_line, os_reason
from holdfast.runtime.guess import path_meant


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Build a network inside: its random weights depend on `seed` alone, torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the CPU generator only; torch.manual_seed would move GPUs too
        yield


def check_weights(weights: str) -> None:
    """Make sure that the file which `weights=` names is there.

    Raises:
        HoldfastError: no such file.
    """
    if weights not in ("default", "random") and not Path(weights).exists():
        raise _absent(weights)


def _absent(path: str | Path) -> HoldfastError:
    return HoldfastError(
        f"weights file {str(path)!r} does not exist; {path_meant(path, 'give the path of a .safetensors file')}"
    )


def weights_file(weights: str) -> tuple[Path, ...] | None:
    """Return the file that `weights=` names; () of random ones, None of the source's own, which a hub may change."""
    return None if weights == "default" else () if weights == "random" else (Path(weights),)


def read_safetensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return (tensors by name, metadata) of a safetensors file.

    Raises:
        HoldfastError: no such file, or a file of another format.
    """
    try:
        with open(path, "rb"):  # safetensors says of every file that it cannot open that there is none
            pass
    except FileNotFoundError as error:
        raise _absent(path) from error
    except OSError as error:
        raise HoldfastError(
            f"cannot read the weights {str(path)!r}: {os_reason(error)}; give the path of a .safetensors file"
        ) from error
    try:
        with safe_open(path, "pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except SafetensorError as error:
        raise HoldfastError(
            f"{str(path)!r} is not a safetensors file ({error}); convert checkpoints of other formats with "
            "safetensors.torch.save_file(state_dict, path)"
        ) from error


def misfits(network: nn.Module, state: Mapping[str, Tensor]) -> list[str]:
    """Return why a state dict does not fit a network, one phrase per tensor: missing, extra, another shape or kind."""
    own = network.state_dict()
    missing = [f"{key} is missing" for key in own if key not in state and not key.endswith("num_batches_tracked")]
    extra = [f"{key} is extra" for key in state if key not in own]
    shape = [
        f"{key} is {list(state[key].shape)} where {list(own[key].shape)} is expected"
        for key in own
        if key in state and own[key].shape != state[key].shape
    ]
    kind = [
        f"{key} holds {str(state[key].dtype)[6:]} where {str(own[key].dtype)[6:]} is expected"
        for key in own
        if key in state and own[key].is_floating_point() != state[key].is_floating_point()
    ]
    return missing + shape + kind + extra


def fill(network: nn.Module, state: Mapping[str, Tensor], name: str) -> None:
    """Load a state dict that must fit exactly (BatchNorm's batch counters aside: eval mode has no use for them).

    Raises:
        HoldfastError: it does not fit; names the first tensors that differ.
    """
    if bad := misfits(network, state):
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        raise HoldfastError(f"{name} does not fit the network: {'; '.join(bad[:3])}{more}")
    network.load_state_dict(dict(state), strict=False)


@contextmanager
def fetching(name: str) -> Iterator[None]:
    """Build a foreign model inside, quietly; a failed look-up or download becomes one line that says what to do.

    Hubs raise OSError (transformers, urllib, requests) or errors of their own client packages; names that a
    package does not know come as RuntimeError (timm, open_clip), ValueError or KeyError. Their log lines repeat
    what the error says, and their warnings are not about what the user wrote: both are held back.
    """
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except HoldfastError:
        raise
    except Exception as error:
        expected = isinstance(error, (OSError, RuntimeError, ValueError, KeyError))
        if not expected and type(error).__module__.split(".")[0] not in {"httpx", "huggingface_hub"}:
            raise
        raise HoldfastError(
            f"{name}: the model or its weights could not be fetched ({first_line(error)}); check the name and the "
            "network, or use ?weights=random or a local path"
        ) from error
    finally:
        logging.disable(level)


@contextmanager
def no_pickle() -> Iterator[None]:
    """Make every `torch.load` inside refuse pickled code, also where a package calls it with weights_only=False."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
