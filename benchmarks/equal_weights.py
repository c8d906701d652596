"""Networks opened from a file of weights, against the library's own network for the same weights.

    python -m benchmarks.equal_weights [--only TEXT] [--most MILLIONS]

Nothing is downloaded: random weights stand for the published ones, where the library looks for these. The library
builds its own network for them, with all that it does for weights of its own alone; Holdfast opens their file.
"""

import argparse
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import save_file
from torch import Tensor

from holdfast.core import Encoder, HoldfastError
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.encoders import open_encoder

Case = tuple[str, float | None, str]
"""Name, largest difference as a share of the largest number (None: it was refused), and why it was."""

SIDE = 96
"""Pixels of images for networks of no fixed size: less work."""

FIXED = ("vit_", "swin", "maxvit")
"""How networks of torchvision are called that take one size of images."""

Network = Callable[[Tensor], Tensor]


def compare(only: str = "", most: float = 60) -> Iterator[Case]:
    """Yield a comparison for each network of torchvision, each entry of its weights, and each network of timm.

    Args:
        only: a text that names must contain.
        most: parameters of a network, in millions; larger ones are left out.
    """
    guard_torchvision()
    with tempfile.TemporaryDirectory() as folder:
        yield from torchvision_cases(Path(folder) / "w.safetensors", only, most)
        yield from timm_cases(Path(folder) / "w.safetensors", only, most)


def torchvision_cases(path: Path, only: str = "", most: float = 60) -> Iterator[Case]:
    """Yield a comparison for each entry of weights of each classifier: as it is downloaded, and as it is kept."""
    from torchvision import models

    for name in models.list_models(module=models):
        for entry in models.get_model_weights(name):
            case = f"torchvision:{name}@{entry.name}"
            if only not in case or entry.meta["num_params"] > most * 1e6:
                continue
            side = entry.transforms().crop_size[0] if name.startswith(FIXED) else SIDE
            given: dict[str, Any] = {"image_size": side} if name.startswith("vit_") else {}
            if name in ("googlenet", "inception_v3"):
                given["init_weights"] = False
            state = varied(models.get_model(name, weights=None, **given).state_dict())
            with published(state):
                theirs = models.get_model(name, weights=entry).eval()
            layer = "classifier&pool=flatten" if name.startswith("squeezenet") else None
            linear = [place for place, part in theirs.named_modules() if isinstance(part, torch.nn.Linear)]
            for kind, held in (("", state), (", kept", theirs.state_dict())):
                spec = f"{case}?weights={path}{f'&layer={layer}' if layer else ''}"
                yield _case(case + kind, spec, held, path, side, theirs, linear[-1] if layer is None else None)


def timm_cases(path: Path, only: str = "", most: float = 60, families: bool = True) -> Iterator[Case]:
    """Yield a comparison for each network of timm; or for the smallest of each of its files."""
    import timm

    found: dict[str, list[tuple[int, str]]] = {}
    for name in timm.list_models():
        if only in f"timm:{name}":
            with torch.device("meta"):
                model = timm.create_model(name)
            count = sum(value.numel() for value in model.parameters())
            found.setdefault(type(model).__module__, []).append((count, name))
    for listed in found.values():
        for count, name in sorted(listed)[: 1 if families and not only else None]:
            if count > most * 1e6:
                continue
            state = varied(timm.create_model(name).state_dict())
            own = {"state_dict": dict(state), "source": ""}
            theirs = timm.create_model(name, pretrained=True, num_classes=0, pretrained_cfg_overlay=own).eval()
            side = timm.data.resolve_data_config({}, model=theirs)["input_size"][1]
            yield _case(f"timm:{name}", f"timm:{name}?weights={path}", state, path, side, theirs, None)


def varied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a state dict with statistics and biases that no fresh network has, each with memory of its own."""
    generator = torch.Generator().manual_seed(0)

    def changed(name: str, value: Tensor) -> Tensor:
        if not value.is_floating_point() or value.ndim > 1:
            return value.clone().contiguous()
        noise = torch.rand(value.shape, generator=generator)
        return noise + 0.5 if "var" in name else value + noise / 10

    copy: Any = OrderedDict((name, changed(name, value)) for name, value in state.items())
    copy._metadata = getattr(state, "_metadata", None)
    return copy


@contextmanager
def published(state: dict[str, Tensor]) -> Iterator[None]:
    """Let torchvision find these weights where it would download its own."""
    from torchvision.models import _api

    with patch.object(_api, "load_state_dict_from_url", lambda *args, **kwargs: state):
        yield


def _case(
    case: str, spec: str, state: dict[str, Tensor], path: Path, side: int, theirs: Any, linear: str | None
) -> Case:
    """Return how far a file's network is from the library's, on two random images: of the input of a layer, or all."""
    save_file({name: value.contiguous() for name, value in state.items()}, path)
    try:
        encoder = open_encoder(spec)
    except HoldfastError as error:
        return case, None, str(error)
    x = torch.rand(2, len(encoder.mean), side, side, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return case, apart(encoder(x), representation(theirs, encoder, x, linear)), ""


def representation(theirs: Any, encoder: Encoder, x: Tensor, linear: str | None) -> Tensor:
    """Return what the library's network gives for normalised images, or gives its last linear layer."""
    seen: list[Tensor] = []
    if linear is not None:
        theirs.get_submodule(linear).register_forward_hook(lambda part, inputs, output: seen.append(inputs[0]))
    output = theirs(encoder.normalisation(x))
    return (seen[-1] if linear is not None else output).flatten(1)


def apart(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest difference as a share of the largest number; infinite where shapes differ."""
    if ours.shape != theirs.shape:
        return float("inf")
    return float((ours - theirs).abs().max() / theirs.abs().max())


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser("python -m benchmarks.equal_weights")
    parser.add_argument("--only", default="", help="a text that names must contain")
    parser.add_argument("--most", type=float, default=60, help="parameters of a network, in millions")
    options = parser.parse_args()
    different = 0
    for name, difference, refused in compare(options.only, options.most):
        different += difference is not None and not difference < 1e-5
        print(name, f"refused: {refused}" if difference is None else f"{difference:.1g}", flush=True)
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
