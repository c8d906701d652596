"""What a training runs on: Accelerate, experiment trackers, signals, seeded dropout and a running mean of weights."""

import contextlib
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.runtime.distributed import processes
from holdfast.runtime.errors import BadValue, Unsupported, first_line, missing, unknown
from holdfast.runtime.optional import optional
from holdfast.training.recipe import Recipe

TRACKERS = ("tensorboard", "mlflow", "trackio")
"""Each is the name of its package and of the extra that installs it."""

PROJECT = "holdfast"


def engine(recipe: Recipe, track: Sequence[str], folder: Path) -> Any:
    """Return the Accelerator: one process, or several that `torchrun` has started."""
    # what Accelerate would leave out without a word is refused here
    for name in track:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        if find_spec(name) is None:  # Accelerate would leave it out and say nothing
            raise missing(name, name, f"track = [{name!r}]")
    try:
        device = torch.device(recipe.device)
    except RuntimeError as error:
        raise BadValue(f"device {recipe.device!r}: expected cpu, cuda or mps") from error
    # one Accelerator for this device, precision and trackers
    accelerate = optional("accelerate", "accelerate", "train", "training")
    try:
        accelerator = accelerate.Accelerator(
            cpu=device.type == "cpu",
            mixed_precision=recipe.precision,
            log_with=list(track) or None,
            project_dir=str(folder),
            # The rate is set before every step, see `Optimiser.set_rate`
            step_scheduler_with_optimizer=False,
        )
    except ValueError as error:  # Accelerate decides once for a process
        raise Unsupported(
            f"precision {recipe.precision!r} on {recipe.device!r} cannot be used here ({first_line(error)}); trainings "
            "of different precision need a process each"
        ) from error
    if recipe.precision != "no" and not accelerator.native_amp:  # else it would train in full precision
        raise Unsupported(
            f"precision {recipe.precision!r} cannot be used on {recipe.device!r}; fp16 needs a GPU: choose bf16 or no"
        )
    if accelerator.device.type != device.type:
        raise Unsupported(f"device {recipe.device!r} cannot be used here; expected {accelerator.device.type}")
    if device.index and device.index != (accelerator.device.index or 0):  # Accelerate takes the first one there is
        raise Unsupported(
            f"device {recipe.device!r}: trainings take the first GPU they see; set CUDA_VISIBLE_DEVICES={device.index} "
            "and device=cuda"
        )
    return accelerator


def begin(accelerator: Any, settings: Mapping[str, Any], folder: Path) -> None:
    """Begin a run of every tracker of an Accelerator, on the main process."""
    if accelerator.log_with:
        # Both call a run by its folder, so that trainings can be told apart in one project
        run = {"mlflow": {"run_name": folder.name}, "trackio": {"name": folder.name}}
        accelerator.init_trackers(PROJECT, config=_flat(settings), init_kwargs=run)


def tell(accelerator: Any, row: Mapping[str, float]) -> None:
    """Tell all trackers about a step: the numbers of its row in the log."""
    accelerator.log({name: value for name, value in row.items() if name != "step"}, step=row["step"])


def end(accelerator: Any) -> None:
    """Close all trackers. Accelerate's own `end_training` would also part the processes, which still have work."""
    if accelerator.is_main_process:
        for tracker in accelerator.trackers:
            tracker.finish()


def _flat(data: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested data as dotted keys with numbers and words as values."""
    if isinstance(data, Mapping):
        inner = (_flat(value, f"{prefix}.{key}" if prefix else str(key)) for key, value in data.items())
        return {key: value for part in inner for key, value in part.items()}
    return {prefix: data if isinstance(data, (bool, int, float, str)) else str(data)}


@contextlib.contextmanager
def interrupts() -> Iterator[list[int]]:
    """Let Ctrl-C and SIGTERM wait for the end of a step: the list that is yielded is then no longer empty.

    Ctrl-C twice stops at once; SIGTERM comes twice under SLURM, which tells torchrun and its processes. At the end the
    first signal goes to whoever would have heard it: without the command line SIGTERM ends the process.
    """
    heard: list[int] = []

    def hear(number: int, frame: object) -> None:
        if number == signal.SIGINT and number in heard:
            raise KeyboardInterrupt
        heard.append(number)

    if threading.current_thread() is not threading.main_thread():  # only the main thread hears signals
        yield heard  # it stays empty
        return
    # What is ignored, as Ctrl-C is in the background of a shell, stays so; None: what C code hears is left to it
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, hear) for number in numbers}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if heard:
            signal.raise_signal(heard[0])


def any_heard(accelerator: Any, heard: list[int]) -> bool:
    """Whether one of the processes has heard a signal: they end after the same step, or some would wait for others."""
    if processes() == 1:
        return bool(heard)
    return bool(accelerator.reduce(torch.tensor(float(len(heard)), device=accelerator.device), "sum"))


@contextlib.contextmanager
def randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Run a step whose dropout depends on the seed alone, so that it is the same after a restart."""
    # Generators that the step does not draw from are not saved: each costs time in every step
    devices = [device] if device.type == "cuda" else []
    # torch.manual_seed would also note the stack for accelerators that nobody uses, 2 ms each time
    sow = torch.default_generator.manual_seed if device.type == "cpu" else torch.manual_seed
    with torch.random.fork_rng(devices=devices):
        sow(seed)
        yield


def running_mean(module: nn.Module, decay: float | None) -> Any:
    """Return a network whose weights are a running mean of another one's; None where none is asked for."""
    if decay is None:
        return None
    averaging = torch.optim.swa_utils
    # Buffers too: the statistics of BatchNorm must be those of the averaged weights
    return averaging.AveragedModel(module, multi_avg_fn=averaging.get_ema_multi_avg_fn(decay), use_buffers=True)
