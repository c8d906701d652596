"""Networks of torchvision opened from files of weights, against those that it builds for weights of its own."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.equal.family import Case, Family
from benchmarks.equal.weights import LIMIT, MOST, UNIT, compared, varied
from holdfast.runtime.torchvision_guard import guard_torchvision

SIDE = 96
"""Pixels of images for networks of no fixed size: less work."""

FIXED = ("vit_", "swin", "maxvit")
"""How networks are called that take one size of images."""


def cases() -> Iterator[Case]:
    """Yield a comparison for each entry of weights of each classifier: as it is downloaded, and as it is kept."""
    guard_torchvision()
    from torchvision import models

    with tempfile.TemporaryDirectory() as folder:
        for name in models.list_models(module=models):
            for entry in models.get_model_weights(name):
                if entry.meta["num_params"] <= MOST:
                    yield from _of(name, entry, models, Path(folder) / "w.safetensors")


def _of(name: str, entry: Any, models: Any, path: Path) -> Iterator[Case]:
    """Yield the comparisons for one entry of weights."""
    side = entry.transforms().crop_size[0] if name.startswith(FIXED) else SIDE
    given: dict[str, Any] = {"image_size": side} if name.startswith("vit_") else {}
    if name in ("googlenet", "inception_v3"):
        given["init_weights"] = False
    state = varied(models.get_model(name, weights=None, **given).state_dict())
    with published(state):
        theirs = models.get_model(name, weights=entry).eval()
    layer = "classifier&pool=flatten" if name.startswith("squeezenet") else None
    linear = [place for place, part in theirs.named_modules() if isinstance(part, torch.nn.Linear)]
    for kind, held in (("as downloaded", state), ("as kept", theirs.state_dict())):
        spec = f"torchvision:{name}@{entry.name}?weights={path}{f'&layer={layer}' if layer else ''}"
        of = linear[-1] if layer is None else None
        yield compared(f"{name}: {entry.name}, {kind}", spec, held, path, side, theirs, of)


@contextmanager
def published(state: dict[str, Tensor]) -> Iterator[None]:
    """Let torchvision find these weights where it would download its own."""
    from torchvision.models import _api

    with patch.object(_api, "load_state_dict_from_url", lambda *args, **kwargs: state):
        yield


FAMILY = Family(
    "Weights files of torchvision",
    "`torchvision:NAME?weights=FILE`, every entry of weights of every classifier up to 60 million parameters",
    "`models.get_model(name, weights=...)` where it finds these weights for its own",
    UNIT,
    LIMIT,
    ("torchvision", "torch"),
    cases,
)
