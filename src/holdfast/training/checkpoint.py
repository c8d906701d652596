"""A training that was interrupted: everything the next step reads, in one file that replaces the one before."""

import hashlib
import pickle
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor, nn

from holdfast.runtime.doors import open_regular, regular
from holdfast.runtime.errors import BadData, BadPlace, Mismatch
from holdfast.storage.run_folder import Store

NAME = "checkpoint.pt"
FORMAT = 2
SEAL = hashlib.sha256().digest_size
"""Bytes at the end of the file: the digest of those before."""


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and buffers, those too that a state dict leaves out (lightly's queues)."""
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


def write(store: Store, network: nn.Module, facts: dict[str, Any]) -> None:
    """Write a checkpoint."""
    held = {"format": FORMAT, "tensors": {name: value.detach() for name, value in tensors_of(network).items()}, **facts}

    def put(path: Path) -> None:
        with path.open("wb+") as file:
            try:
                torch.save(held, file)
                file.write(_digest(file, file.tell()))  # last, so that a file that was cut off has none
            except RuntimeError as error:  # torch's, of a disk that is full
                raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None

    store.write(NAME, put)


def _digest(file: BinaryIO, size: int) -> bytes:
    """Return the SHA-256 of the first bytes of a file, which is then at their end."""
    file.flush()
    file.seek(0)
    taken = hashlib.sha256()
    # A checkpoint may be larger than the memory that is left
    while size > 0 and (chunk := file.read(min(size, 2**20))):
        taken.update(chunk)
        size -= len(chunk)
    return taken.digest()


def _unbroken(path: Path) -> bool:
    """Whether a checkpoint is as it was written."""
    with open_regular(path) as file:
        size = path.stat().st_size - SEAL
        return size > 0 and _digest(file, size) == file.read()  # the rest of the file is the seal


def read(folder: Path, digest: str) -> dict[str, Any] | None:
    """Return the checkpoint of a folder; None where there is none."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        # Before anything is unpickled: damaged bytes may load as other weights without a word
        if not _unbroken(path):
            raise ValueError("its digest is another")
        held = torch.load(regular(path), map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
        raise BadData(
            f"cannot read the checkpoint {str(path)!r}, it is damaged or of another version; delete it to begin anew, "
            "or choose another --out"
        ) from error
    if not isinstance(held, dict) or held.get("format") != FORMAT or held.get("recipe") != digest:
        raise BadPlace(
            f"the checkpoint {str(path)!r} is of another recipe or version; delete it "
            "to begin anew, or choose another --out"
        )
    return held


def restore(network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Fill parameters and buffers with those of a checkpoint."""
    own = tensors_of(network)
    if own.keys() != tensors.keys() or any(own[name].shape != tensors[name].shape for name in own):
        raise Mismatch("the checkpoint does not fit the network: it was made by another version; begin anew")
    with torch.no_grad():
        for name, value in own.items():  # in place: the optimiser holds these very tensors
            value.copy_(tensors[name])
