"""What reduced precision, compilation and layout change on the device, beside float32 eager."""

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.gpu.device import Device
from benchmarks.gpu.row import Finding
from benchmarks.gpu.task import Task
from holdfast.core import Encoder, Rng
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder

LIMITS = {"tf32": 0.05, "bf16": 0.2, "fp16": 0.1, "channels_last": 1e-3, "compiled": 1e-3}
"""Most by which the drift that an attack reaches may differ from that of float32 eager, as a share of it."""


def tasks(device: Device) -> Iterator[Task]:
    """Yield a task for each way to run the passes of a search."""
    for way, limit in LIMITS.items():
        gpu_only = {"tf32": "it needs CUDA", "compiled": "it takes minutes on a CPU"}
        without = "" if device.is_gpu else gpu_only.get(way, "")
        yield Task("precision", way, partial(_compare, device, way, limit), without=without)


def _compare(device: Device, way: str, limit: float) -> Finding:
    count = 64 if device.is_gpu else 8
    spec, shape = ("zoo:resnet18_32", (3, 32, 32)) if device.is_gpu else ("zoo:digits-simclr", (1, 8, 8))
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
    return Finding(f"median drift apart {apart:.2g}", f"≤ {limit:g}", apart <= limit, {"apart": apart})


def _drift(encoder: Encoder, x: torch.Tensor) -> torch.Tensor:
    """Return how far PGD moves the representations, [B]; read out in float32."""
    with torch.no_grad():
        clean = encoder(x)
    rng = Rng(0, ids=tuple(map(str, range(len(x)))))
    goal = Untargeted().pursue(encoder, clean)
    trajectory = Pgd(10)(goal, x, Linf(4 / 255), rng).reevaluate(goal, encoder)
    return trajectory.values[-1].double().cpu()
