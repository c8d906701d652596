"""Networks that any process opens by name (py:watched:network), and that do in the middle of a pass what a test asks.

A test asks by files in the folder that WATCHED names: `stop` (the first process that comes to a gradient pass writes
`begun`, and waits for `go`), `die` (killed as where memory runs out) or `fail`.
"""

import os
import signal
import time
from pathlib import Path

import torch
from torch import Tensor, nn


class Watched(nn.Module):
    """A smooth network of digits, [B, 1, 8, 8] -> [B, 12]."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(64, 12) / 8)

    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad:
            obey(Path(os.environ["WATCHED"]))
        return (x.flatten(1) @ self.weights).tanh()


def network() -> nn.Module:
    return Watched()


def relu() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 12))


def normed() -> nn.Module:
    """A network that nobody can certify."""
    return nn.Sequential(nn.Flatten(), nn.Hardshrink(0.1))


def obey(folder: Path) -> None:
    """Do what a test asks for."""
    if (folder / "die").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if (folder / "fail").exists():
        raise RuntimeError("asked to fail")
    if (folder / "stop").exists() and not (folder / "begun").exists():
        mine = folder / f"begun.{os.getpid()}"
        mine.write_text(str(os.getpid()))
        try:
            os.link(mine, folder / "begun")  # the first process alone, and with its number in it at once
        except FileExistsError:
            return
        until((folder / "go").exists)


def until(true, seconds: float = 120.0):
    """Wait until something is true, and return it.

    Raises:
        TimeoutError: it does not become true.
    """
    end = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() > end:
            raise TimeoutError("waited in vain")
        time.sleep(0.01)
    return found


def surrounded():
    """Make work for an engine: it prints, and answers with the environment."""

    def work(task: str) -> str:
        os.write(1, f"printed in {os.environ['WATCHED']}\n".encode())
        return f"{os.environ['WATCHED']} {task}"

    return work
