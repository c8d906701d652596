"""Bounds on the device: those of the CPU up to rounding, and above what no image that is drawn falls below."""

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.gpu.device import Device
from benchmarks.gpu.loops import Setting, margin
from benchmarks.gpu.row import Finding
from benchmarks.gpu.task import Task
from holdfast.core import Bound, registry
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder

LIMIT = 1e-6
"""Most by which bounds in float64 may differ, of margins of size 1: more rows are bounded together on a device."""

CERTIFIERS: dict[str, dict[str, int]] = {
    "interval": {},
    "crown_ibp": {},
    "crown": {},
    "alpha_crown": {"inside": 2, "steps": 5},
    "beta_crown": {"inside": 2, "steps": 5, "splits": 4},
}


def tasks(device: Device) -> Iterator[Task]:
    """Yield a task for each certifier."""
    for name, fields in CERTIFIERS.items():
        yield Task("certificates", name, partial(_compare, device, name, fields))


def _compare(device: Device, name: str, fields: dict[str, int]) -> Finding:
    ball, count = Linf(0.02), 8 if device.is_gpu else 2
    x = torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(0))

    def bound(place: str) -> tuple[Setting, Bound]:
        at = Setting(open_encoder("zoo:digits-simclr").to(place), x.to(place))
        return at, registry.find("certifiers", name)(**fields)(at.encoder, margin(at), at.x, ball)

    (at, there), (_, here) = bound(device.name), bound("cpu")
    apart = float((there.lower.cpu() - here.lower).abs().max())
    # no image of the ball has a smaller margin
    numbers = torch.Generator().manual_seed(1)
    rows, least = margin(at).to(torch.float64), torch.full_like(there.lower, torch.inf)
    for _ in range(100):
        drawn = (x + ball.radius * (2 * torch.rand(x.shape, generator=numbers).round() - 1)).clamp(0, 1)
        with torch.no_grad():
            least = torch.minimum(least, rows(at.encoder(drawn.to(device.name)).double()).to(least))
    room = float((least - there.lower).min())
    found = f"apart {apart:.1g}, least room below draws {room:.2g}"
    return Finding(found, f"≤ {LIMIT:g}, > 0", apart <= LIMIT and room > -1e-5, {"apart": apart, "room": room})
