"""Weights: seeded random ones, safetensors files, and downloads that may fail."""

import json
import logging
import os
import warnings
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.runtime.doors import open_regular, open_tensors
from holdfast.runtime.errors import BadData, Failed, HoldfastError, Mismatch, Missing, first_line, os_reason
from holdfast.runtime.guess import path_meant

LONGEST = 500
"""Characters in the name of a tensor."""

PRECISIONS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
"""What weights may be stored in; fewer bits mean nothing without the scales that belong to them."""


@contextmanager
def fix_seed(seed: int) -> Iterator[None]:
    """Build a network inside: its random weights depend on `seed` alone, torch's global generator is left as it was."""
    # No devices: their generators draw nothing here, and saving their state would start CUDA
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the CPU generator only; torch.manual_seed would move GPUs too
        yield


def check_weights(weights: str) -> None:
    """Make sure that the file which `weights=` names is there.

    Raises:
        HoldfastError: no such file.
    """
    if weights not in ("default", "random"):
        check_file(weights)


def check_file(path: str | Path) -> None:
    """Make sure that a path is a file that can be read, before anything waits for a pipe.

    Raises:
        HoldfastError: no file, or none that may be read.
    """
    try:
        open_regular(path).close()
    except FileNotFoundError as error:
        meant = path_meant(path, "give the path of a .safetensors file")
        raise Missing(f"weights file {str(path)!r} does not exist; {meant}") from error
    except OSError as error:
        raise BadData(
            f"cannot read the weights {str(path)!r}: {os_reason(error)}; give the path of a .safetensors file"
        ) from error


def read_safetensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return (tensors by name, metadata) of a safetensors file.

    Raises:
        HoldfastError: no such file, a file of another format, or one that says a name twice.
    """
    check_file(path)
    try:
        with open_tensors(path) as file:
            read = {key: file.get_tensor(key) for key in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except Exception as error:  # beside its own kind, whatever torch raises of strange shapes and types
        raise BadData(
            f"{str(path)!r} is not a safetensors file ({first_line(error)}); convert checkpoints of other formats with "
            "safetensors.torch.save_file(state_dict, path)"
        ) from error
    check_names(read[0], path)
    if twice := _find_duplicate_names(path):
        raise BadData(
            f"{str(path)!r}: expected each name once, got {twice[0]!r} twice in its header; write the file again with "
            "safetensors.torch.save_file"
        )
    return read


def check_names(names: Iterable[str], path: str | Path) -> None:
    """Refuse names that are none, before an error or a record shows them.

    Raises:
        HoldfastError: a name that cannot be printed, or is longer than any.
    """
    if strange := [name for name in names if not name.isprintable() or len(name) > LONGEST]:
        raise BadData(
            f"{str(path)!r}: expected names of tensors such as 'layer1.0.weight', got {strange[0][:40]!r}; write the "
            "file again with safetensors.torch.save_file"
        )


def _find_duplicate_names(path: str | Path) -> list[str]:
    """Return the names that the header of a safetensors file has twice, of which the package takes the last."""
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # A dictionary keeps the last of two equal names, so they are counted before it is made
        twice.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        return dict(pairs)

    with open_regular(path) as file:
        # Eight bytes of length, then the header as JSON
        size = int.from_bytes(file.read(8), "little")
        json.loads(file.read(size), object_pairs_hook=once)
    return twice


def parse_numbers(metadata: Mapping[str, str], key: str, path: str | Path) -> list[float] | None:
    """Return the numbers that a file says of itself under a key, such as "mean"; None where it says none.

    Raises:
        HoldfastError: a text that is no numbers.
    """
    if key not in metadata:
        return None
    try:
        return [float(part) for part in metadata[key].split(",")]
    except ValueError as error:
        raise BadData(
            f"{str(path)!r}: expected its metadata {key!r} to be numbers such as '0.485,0.456,0.406', got "
            f"{metadata[key][:40]!r}; write it again, or give ?mean=...&std=..."
        ) from error


def misfits(network: nn.Module, state: Mapping[str, Tensor]) -> list[str]:
    """Return why a state dict does not fit a network, one phrase per tensor: missing, extra, another shape or kind."""
    own = {key: value for key, value in network.state_dict().items() if isinstance(value, Tensor)}
    # Counters of batches are read in training alone
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
        # Whole numbers instead of real ones, or the other way round, would be converted without a word
        if key in state and own[key].is_floating_point() != state[key].is_floating_point()
    ]
    return missing + shape + kind + extra


def fill(network: nn.Module, state: Mapping[str, Tensor], name: str) -> None:
    """Load a state dict that must fit exactly (BatchNorm's batch counters aside: eval mode has no use for them).

    Raises:
        HoldfastError: it does not fit, or has values that no weights have; names the first such tensors.
    """
    if bad := misfits(network, state):
        raise Mismatch(f"{name} does not fit the network: {_several(bad)}")
    if bad := unsound(state, dict(network.named_parameters())):
        raise BadData(f"{name} holds no weights that can be used: {_several(bad)}")
    loaded: Any = OrderedDict(state)
    loaded._metadata = getattr(network.state_dict(), "_metadata", None)  # they have its own names: nothing is converted
    try:
        network.load_state_dict(loaded, strict=False)
    except Exception as error:  # code of the network's own, which torch calls here
        raise Failed(f"{name} cannot be loaded: {type(error).__name__}: {first_line(error)}") from error


def unsound(state: Mapping[str, Tensor], parameters: Collection[str]) -> list[str]:
    """Return which tensors of a state dict are no weights, one phrase per tensor: NaN, or a kind that needs scales.

    Args:
        state: the tensors.
        parameters: names of those that are learned; others, such as a mask, may be infinite.
    """
    bad = []
    for key, value in state.items():
        # Tests of finiteness do not exist for such tensors
        if value.layout != torch.strided or value.is_quantized or value.is_meta:
            bad.append(f"{key} is a {'quantised' if value.is_quantized else str(value.layout)[6:]} tensor")
        elif value.is_floating_point() and value.dtype not in PRECISIONS:
            bad.append(f"{key} is stored as {str(value.dtype)[6:]}, whose scales are not known")
        elif value.is_floating_point():
            # Buffers may hold infinities on purpose, weights may not
            wrong = ~value.isfinite() if key in parameters else value.isnan()
            if bool(wrong.any()):
                bad.append(f"{key} is NaN or infinite at {int(wrong.sum())} of {value.numel()} places")
    return bad


def _several(phrases: list[str]) -> str:
    more = f" and {len(phrases) - 3} more" if len(phrases) > 3 else ""
    return f"{'; '.join(phrases[:3])}{more}"


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
        # Errors of a hub's client are told by their package; anything else is a fault to be seen
        if not expected and type(error).__module__.split(".")[0] not in {"httpx", "huggingface_hub"}:
            raise
        raise Failed(
            f"{name}: the model or its weights could not be fetched ({first_line(error)}); check the name and the "
            "network, or use ?weights=FILE, ?weights=random or a local path"
        ) from error
    finally:
        logging.disable(level)


@contextmanager
def no_pickle() -> Iterator[None]:
    """Make every `torch.load` inside refuse pickled code, also where a package calls it with weights_only=False."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    # Read by torch at each call, whatever the caller asks for
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
