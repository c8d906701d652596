"""What reduced precision, compilation and layout change on the device, beside float32 eager."""

from functools import partial

import torch

from benchmarks.gpu.device import Device
from benchmarks.gpu.row import Report, Row
from holdfast.core import Encoder, Rng
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder

SECTION = "precision"
LIMITS = {"tf32": 0.05, "bf16": 0.2, "fp16": 0.1, "compiled": 1e-3, "channels_last": 1e-3}
"""Most by which the drift that an attack reaches may differ from that of float32 eager, as a share of it."""


def compare(report: Report, device: Device, small: bool) -> None:
    """Add a row for each way to run the passes of a search."""
    for way, limit in LIMITS.items():
        if way == "tf32" and not device.is_gpu:
            report.add(Row(SECTION, way, "skipped: needs CUDA"))
        elif way == "compiled" and small:
            report.add(Row(SECTION, way, "skipped: takes minutes"))
        else:
            report.attempt(SECTION, way, partial(_row, device, way, limit, small))


def _row(device: Device, way: str, limit: float, small: bool) -> Row:
    count = 8 if small else 64
    spec, shape = ("zoo:digits-simclr", (1, 8, 8)) if small else ("zoo:resnet18_32", (3, 32, 32))
    x = torch.rand(count, *shape, generator=torch.Generator().manual_seed(0)).to(device.name)
    usual = _drift(open_encoder(spec).to(device.name), x)
    encoder = open_encoder(spec).to(device.name)
    if way == "channels_last":
        encoder.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        x = x.contiguous(memory_format=torch.channels_last)
    elif way == "compiled":
        encoder.prepare(compiled=True)
    else:
        encoder.prepare(precision=way)
    apart = float(((_drift(encoder, x) - usual).abs() / usual).median())
    return Row(SECTION, way, f"median drift apart {apart:.2g}", f"≤ {limit:g}", apart <= limit)


def _drift(encoder: Encoder, x: torch.Tensor) -> torch.Tensor:
    """Return how far PGD moves the representations, [B]; read out in float32."""
    with torch.no_grad():
        clean = encoder(x)
    rng = Rng(0, ids=tuple(map(str, range(len(x)))))
    goal = Untargeted().pursue(encoder, clean)
    trajectory = Pgd(10)(goal, x, Linf(4 / 255), rng).reevaluated(goal, encoder)
    return trajectory.values[-1].double().cpu()
