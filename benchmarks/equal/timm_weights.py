"""Networks of timm opened from files of weights, against those that it builds for weights of its own."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.equal.family import Case, Family
from benchmarks.equal.weights import LIMIT, MOST, UNIT, compared, varied
from holdfast.runtime.torchvision_guard import guard_torchvision


def cases() -> Iterator[Case]:
    """Yield a comparison for the smallest network of each of timm's files."""
    guard_torchvision()
    import timm

    smallest: dict[str, tuple[int, str]] = {}
    for name in timm.list_models():
        with torch.device("meta"):
            model = timm.create_model(name)
        own = sum(value.numel() for value in model.parameters()), name
        smallest[type(model).__module__] = min(own, smallest.get(type(model).__module__, own))
    with tempfile.TemporaryDirectory() as folder:
        for count, name in sorted(smallest.values()):
            if count <= MOST:
                yield _of(name, timm, Path(folder) / "w.safetensors")


def _of(name: str, timm: Any, path: Path) -> Case:
    state = varied(timm.create_model(name).state_dict())
    own = {"state_dict": dict(state), "source": ""}
    theirs = timm.create_model(name, pretrained=True, num_classes=0, pretrained_cfg_overlay=own).eval()
    side = theirs.pretrained_cfg["input_size"][1]
    return compared(name, f"timm:{name}?weights={path}", state, path, side, theirs, None)


FAMILY = Family(
    "Weights files of timm",
    "`timm:NAME?weights=FILE`, the smallest network of each of its files",
    "`timm.create_model(name, pretrained=True, num_classes=0)` where it finds these weights for its own",
    UNIT,
    LIMIT,
    ("timm", "torch"),
    cases,
)
