"""Bounds on the device: those of the CPU up to rounding, and above what no image that is drawn falls below."""

from functools import partial

import torch

from benchmarks.gpu.device import Device
from benchmarks.gpu.loops import Setting, margin
from benchmarks.gpu.row import Report, Row
from holdfast.core import Bound, registry
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder

SECTION = "certificates"
LIMIT = 1e-6
"""Most by which bounds in float64 may differ, of margins of size 1: more rows are bounded together on a device."""


def compare(report: Report, device: Device, small: bool) -> None:
    """Add a row for each certifier."""
    options = {"interval": {}, "crown_ibp": {}, "crown": {}, "alpha_crown": {"inside": 2, "steps": 5}}
    options["beta_crown"] = {"inside": 2, "steps": 5, "splits": 4}
    for name, fields in options.items():
        report.attempt(SECTION, name, partial(_row, device, name, fields, small))


def _row(device: Device, name: str, fields: dict[str, int], small: bool) -> Row:
    ball, count = Linf(0.02), 2 if small else 8
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
    return Row(SECTION, name, found, f"≤ {LIMIT:g}, > 0", apart <= LIMIT and room > -1e-5)
