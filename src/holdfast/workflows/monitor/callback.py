"""A Lightning callback that logs measures of a part of the module that is trained."""

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from torch import nn

from holdfast.config.overrides import Change
from holdfast.runtime.errors import BadValue, UnknownName
from holdfast.runtime.optional import optional
from holdfast.workflows.monitor.snapshot import Pictures, look, measures_of, open_pictures

PACKAGES = {"lightning": "lightning.pytorch", "pytorch_lightning": "pytorch_lightning"}
"""Package -> where its Trainer is; both are Lightning."""


class HoldfastCallback:
    """Logs measures of an encoder every so many training steps, as `holdfast/NAME`, on the first process.

    It is a `Callback` of whichever Lightning package is in use, `lightning` or `pytorch_lightning`. A measure that
    fails becomes a warning, and the training goes on.

    Args:
        encoder: name of the attribute of the LightningModule that makes representations ("backbone", dotted names
            too), or a function of the module that returns it.
        data: images to ask about.
        measures: what to ask.
        every: steps of the optimiser between looks.
        prefix: what the logged names begin with.
        mean: per-channel mean that the encoder's preprocessing subtracts, of [0, 1] pixels; not for an `Encoder`.
        std: per-channel standard deviation that it divides by.
        train: labelled images that probes learn from; None: those of `data` that are not attacked.
        images: how many of `data`; None: all.
        attacked: how many of these are attacked or tested; see `look`.
        seed: the one seed of what is drawn.
        device: where to look; None: where the encoder is.
        batch_size: images per pass; None: by the image's size.

    Raises:
        HoldfastError: no Lightning, images or measures that nobody knows.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> "HoldfastCallback":
        """Make an object that is a callback of the Lightning packages in use as well."""
        return object.__new__(type(cls.__name__, (cls, *_callbacks()), {"__module__": cls.__module__}))

    def __init__(
        self,
        encoder: str | Callable[[Any], nn.Module],
        data: Pictures,
        measures: Sequence[Change],
        *,
        every: int,
        prefix: str = "holdfast/",
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        train: Pictures | None = None,
        images: int | None = None,
        attacked: int | None = None,
        seed: int = 0,
        device: str | None = None,
        batch_size: int | None = None,
    ):
        super().__init__()
        if every < 1:
            raise BadValue(f"every: expected at least 1 step between looks, got {every}")
        self._images = open_pictures(data, images, seed)
        self._measures = measures_of(measures, self._images)
        self._how: dict[str, Any] = {"mean": mean, "std": std, "attacked": attacked, "seed": seed, "device": device}
        self._how |= {"train": None if train is None else open_pictures(train, None, seed), "batch_size": batch_size}
        self._encoder, self._every, self._prefix, self._last = encoder, every, prefix, 0

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any) -> None:
        """Look, where the time has come: once per step, also where gradients are accumulated over batches."""
        step = trainer.global_step
        if step == self._last or step % self._every:
            return
        self._last = step
        if not trainer.is_global_zero:
            return
        snapshot = look(self._part(pl_module), self._images, self._measures, **self._how)
        values = {f"{self._prefix}{name}": value for name, value in snapshot.values.items()}
        pl_module.log_dict(values, rank_zero_only=True)
        for failure in snapshot.failures:
            warnings.warn(f"step {step}: {failure}", stacklevel=2)

    def _part(self, module: Any) -> nn.Module:
        """Return the part of a LightningModule that makes representations."""
        if callable(self._encoder):
            return self._encoder(module)
        try:
            return module.get_submodule(self._encoder)
        except AttributeError as error:
            parts = ", ".join(name for name, _ in module.named_children()) or "none"
            raise UnknownName(
                f"{type(module).__name__}: expected a part called {self._encoder!r} that makes representations; "
                f"it has: {parts}"
            ) from error


def _callbacks() -> tuple[type, ...]:
    """Return the Callback classes of the Lightning packages that are imported, else of the first that is installed."""
    used = [module for module in PACKAGES.values() if module in sys.modules]
    names = used or [module for package, module in PACKAGES.items() if find_spec(package)][:1]
    modules = names or [PACKAGES["lightning"]]
    return tuple(optional(name, name.partition(".")[0], "lightning", "HoldfastCallback").Callback for name in modules)
