"""Joining the parts of a batch that several processes hold."""

import os

import torch
import torch.distributed as dist
from torch import Tensor

from holdfast.runtime.optional import optional


def processes() -> int:
    """Number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process among them."""
    return dist.get_rank() if processes() > 1 else 0


def leads() -> bool:
    """Whether this process speaks and writes: the first of those that torchrun started, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def torchrun_size() -> int:
    """Number of processes that torchrun started; they need not know of each other yet, as `processes` does."""
    # Accelerate, too, takes a process without a local rank for the only one
    return int(os.getenv("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1


def gather(rows: Tensor) -> Tensor:
    """Return the rows of all processes in the order of their ranks; gradients flow back to each one's own.

    Every process computes the same loss from what is gathered. A backward pass hands each process the sum of all
    processes' gradients of its rows, so that the mean over processes that `DistributedDataParallel` takes is the
    gradient of the one loss.
    """
    if processes() == 1:
        return rows
    # Without a gradient torch gathers; with one lightly does, whose operation hands it back
    if not rows.requires_grad:
        parts = [torch.empty_like(rows) for _ in range(processes())]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)
    lightly = optional("lightly.utils.dist", "lightly", "train", "training in several processes")
    return torch.cat(lightly.gather(rows.contiguous()))


def share(gathered: Tensor) -> Tensor:
    """Return the rows of a gathered tensor that belong to this process."""
    return gathered.chunk(processes())[rank()]
