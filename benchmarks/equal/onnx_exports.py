"""Small torch modules, and networks of torchvision, as both exporters of torch write them in several operator sets."""

import io
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.equal.family import Case, Family
from benchmarks.equal.onnx_files import LIMIT, UNIT, case, normalised, pictures

SIDE = 16
OLDEST, NEWEST = 11, 20
"""Operator sets of the exporter that traces."""

DYNAMO = (18, 23)
"""Operator sets of the exporter that captures."""


class Function(nn.Module):
    """A function of features, behind a convolution to [N, 8, 16, 16]."""

    def __init__(self, function: Callable[[Tensor], Tensor], *modules: nn.Module):
        super().__init__()
        self.conv, self.own = nn.Conv2d(3, 8, 3, padding=1), nn.Sequential(*modules)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Return what the function gives, flattened."""
        return self.function(self.own(self.conv(x))).flatten(1)


class Attention(nn.Module):
    """Tokens of patches with a class token, one layer of a transformer, and the class token's value."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 16, 4, 4)
        self.token, self.places = nn.Parameter(torch.rand(1, 1, 16)), nn.Parameter(torch.rand(1, 17, 16))
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu")

    def forward(self, x: Tensor) -> Tensor:
        """Return the class token, [N, 16]."""
        tokens = self.embed(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), tokens], 1) + self.places
        return self.layer(tokens)[:, 0]


def tokens(x: Tensor) -> Tensor:
    """Return [N, C, H, W] as [N, H W, C]."""
    return x.flatten(2).transpose(1, 2)


def windows(x: Tensor) -> Tensor:
    """Return shifted windows of 4 x 4, as a Swin transformer has them."""
    x = torch.roll(x.permute(0, 2, 3, 1), (-2, -2), (1, 2))
    return x.view(x.shape[0], 4, 4, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 8).view(x.shape[0], -1)


def attended(x: Tensor) -> Tensor:
    """Return the attention of tokens to each other."""
    t = tokens(x).unflatten(2, (2, 4)).transpose(1, 2)
    return F.scaled_dot_product_attention(t, t, t)


MODULES: dict[str, Callable[[], nn.Module]] = {
    "normalised": partial(Function, lambda x: F.normalize(x.mean((2, 3)))),
    "global max pool": partial(Function, lambda x: x.amax((-2, -1))),
    "activations": partial(Function, lambda x: F.silu(x) + F.hardswish(x) + F.mish(x) + F.softplus(x) + F.elu(x)),
    "gelu by tanh": partial(Function, lambda x: F.gelu(x, approximate="tanh") + F.gelu(x)),
    "glu and prelu": partial(Function, lambda x: F.glu(x, 1), nn.PReLU(8)),
    "batch and group norm": partial(Function, lambda x: x, nn.BatchNorm2d(8), nn.GroupNorm(4, 8), nn.InstanceNorm2d(8)),
    "layer norm": partial(Function, lambda x: F.layer_norm(tokens(x), (8,))),
    "pools": partial(Function, lambda x: F.avg_pool2d(F.max_pool2d(x, 3, 2, 1, ceil_mode=True), 3, 2, 1)),
    "average without pads": partial(Function, lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    "adaptive pools": partial(Function, lambda x: F.adaptive_avg_pool2d(x, 4) + F.adaptive_max_pool2d(x, 4)),
    "bilinear": partial(Function, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    "bilinear, corners": partial(Function, lambda x: F.interpolate(x, (9, 21), mode="bilinear", align_corners=True)),
    "bicubic": partial(Function, lambda x: F.interpolate(x, scale_factor=0.5, mode="bicubic")),
    "nearest": partial(Function, lambda x: F.interpolate(x, (12, 20), mode="nearest")),
    "pixel shuffle": partial(Function, lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 4)),
    "pads": partial(Function, lambda x: F.pad(F.pad(x, (1, 2, 0, 1), "reflect"), (2, 0, 1, 1), "replicate")),
    "cumulative": partial(Function, lambda x: x.cumsum(1) + x.flip(3)),
    "largest three": partial(Function, lambda x: x.topk(3, dim=1).values),
    "statistics": partial(Function, lambda x: torch.cat([x.std((2, 3)), x.var(1).mean(1), x.norm(dim=1).mean(1)], 1)),
    "softmax and logs": partial(Function, lambda x: x.softmax(1) + x.log_softmax(2) + x.logsumexp(1, keepdim=True)),
    "masks": partial(Function, lambda x: torch.where(x > 0, x, 0.1 * x).masked_fill(x > 1, 1.0).clamp(-0.5)),
    "parts": partial(Function, lambda x: torch.cat([x[:, ::2, 1:-1], x[:, 1::2, 2:]], 1)),
    "split": partial(Function, lambda x: torch.cat(x.split([3, 5], 1)[::-1], 1) + torch.cat(x.chunk(2, 1)[::-1], 1)),
    "einsum": partial(Function, lambda x: torch.einsum("nchw,nchv->nwv", x, x)),
    "rotated": partial(Function, lambda x: x.flip(2).transpose(2, 3) + x.movedim(3, 2)),
    "windows": partial(Function, windows),
    "attention": partial(Function, attended),
    "transformer": Attention,
    "transposed convolution": partial(Function, lambda x: x, nn.ConvTranspose2d(8, 4, 3, 2, 1, 1)),
    "dilated, grouped": partial(Function, lambda x: x, nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4)),
    "local response": partial(Function, lambda x: x, nn.LocalResponseNorm(3, 0.1)),
}  # fmt: skip

NETWORKS = ("resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "efficientnet_b0",
            "regnet_y_400mf", "densenet121", "convnext_tiny", "swin_t", "vit_b_32", "googlenet")  # fmt: skip
"""Of torchvision."""


@dataclass(frozen=True)
class Export:
    """A module as a file.

    Attributes:
        name: of the export.
        make: makes the module.
        side: of its images.
        opset: of the file.
        dynamo: whether by the exporter that captures.
    """

    name: str
    make: Callable[[], nn.Module]
    side: int
    opset: int
    dynamo: bool

    def write(self, path: Path) -> nn.Module:
        """Write the file, and return the module in eval mode."""
        torch.manual_seed(0)
        module, x = self.make().eval(), torch.rand(2, 3, self.side, self.side)
        axes: dict[str, Any] = {"dynamic_axes": {"x": {0: "batch"}}}
        if self.dynamo:
            axes = {"dynamic_shapes": ({0: torch.export.Dim("batch", min=1, max=64)},)}
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module, (x,), str(path), opset_version=self.opset, dynamo=self.dynamo, input_names=["x"], verbose=False,
                external_data=False, **axes,
            )  # fmt: skip
        return module


def exports() -> Iterator[Export]:
    """Yield each module by both exporters, the opsets in turns, and each network by one of them."""
    for number, (name, make) in enumerate(MODULES.items()):
        traced = OLDEST + number % (NEWEST - OLDEST + 1)
        if name in ("pads", "bilinear", "bicubic", "nearest", "attention", "transformer", "layer norm", "rotated"):
            traced = max(traced, 14)  # what older sets cannot say
        yield Export(f"{name}, opset {traced}", make, SIDE, traced, False)
        captured = DYNAMO[0] + number % (DYNAMO[1] - DYNAMO[0] + 1)
        yield Export(f"{name}, opset {captured}, dynamo", make, SIDE, captured, True)
    for number, name in enumerate(NETWORKS):
        dynamo = number % 3 == 2
        opset = DYNAMO[0] if dynamo else 17
        yield Export(f"{name}, opset {opset}{', dynamo' * dynamo}", partial(_network, name), 224, opset, dynamo)


def _network(name: str) -> nn.Module:
    """Return a network of torchvision with random weights, and statistics that are not those of no image."""
    from holdfast.runtime.torchvision_guard import guard_torchvision

    guard_torchvision()
    from torchvision import models

    options = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
    network = models.get_model(name, weights=None, **options)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean = 0.1 * torch.randn(module.num_features)
            module.running_var = 0.5 + torch.rand(module.num_features)
    return network


def cases() -> Iterator[Case]:
    """Yield a comparison for each export."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        for export in exports():
            module = export.write(path)
            x = pictures(3, (3, export.side, export.side))
            with torch.no_grad():
                theirs = module(normalised(x))
            yield case(export.name, path, x, theirs)


FAMILY = Family(
    "Networks that torch exports",
    "`onnx:` files by both exporters, opsets 11 to 23, of small modules and networks of torchvision",
    "the module in torch",
    UNIT,
    LIMIT,
    ("torch", "onnx", "onnxscript", "torchvision"),
    cases,
)
