"""Time per attack step through an ONNX file, as a ratio of that of the same network in torch.

    python -m benchmarks.onnx_step [--json]

torchvision's MobileNetV2, random weights, 16 images of 224 x 224, one thread: forward and backward to the pixels. It is
written as an ONNX file, opened as `onnx:`, and compared with itself: with its batch norms folded into the convolutions,
as the exporter does, and as it was. Steps alternate, in processor time, see `paced`.
"""

import tempfile
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.attack_step import bare_step
from benchmarks.paced import beside
from benchmarks.result import Result, from_rounds, report
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.encoders import open_encoder

TARGET = 1.05


def network() -> nn.Module:
    """Return MobileNetV2 without its classifier, frozen, its batch norms as after training: none is the identity."""
    guard_torchvision()
    from torchvision.models import mobilenet_v2

    draw = torch.Generator().manual_seed(0)
    model = mobilenet_v2()
    model.set_submodule("classifier", nn.Identity())
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.1, generator=draw)
            module.running_var.uniform_(0.5, 1.5, generator=draw)
    return model.eval().requires_grad_(False)


def as_file(model: nn.Module, size: int) -> nn.Module:
    """Return what `onnx:` makes of the network's file."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter
        torch.onnx.export(
            model, (torch.rand(2, 3, size, size),), f"{folder}/m.onnx", dynamo=False, opset_version=17,
            input_names=["x"], output_names=["reps"], dynamic_axes={"x": {0: "b"}},
        )  # fmt: skip
        return open_encoder(f"onnx:{folder}/m.onnx?mean=0&std=1")


def measure(rounds: int = 8, batch: int = 16, size: int = 224) -> list[Result]:
    """Return the ratios to the network with batch norms folded, and to the network as it is.

    Args:
        rounds: steps that are timed, after one that is not.
        batch: images at a time.
        size: side of an image, in pixels.
    """
    from torch.fx.experimental.optimization import fuse

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = network()
        folded = fuse(model).requires_grad_(False)
        opened = as_file(model, size)
        x = torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            clean = model(x.flip(0))
            apart = float((opened(x) - model(x)).abs().max() / model(x).abs().max())

        def step(of: nn.Module) -> Callable[[], Tensor]:
            walk = bare_step(of, clean)
            return lambda: walk(x)

        results = []
        for name, floor, target in (("batch norms folded", folded, TARGET), ("as it is", model, None)):
            ratios, floors = beside(step(opened), step(floor), rounds)
            note = f"{batch} × {size}², {rounds} steps, floor {min(floors):.2f} s; outputs differ by {apart:.0e}"
            results.append(from_rounds(f"ONNX step, torch {name}", ratios, target, note))
        return results
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    report(measure, __doc__)
