"""A search of a large bank: what it takes beside bare products and choices on the device, and whether it is right."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.gpu.device import Device
from benchmarks.gpu.row import Finding
from benchmarks.gpu.task import Task
from holdfast.core.precision import use_precision
from holdfast.numerics.geometry.top_k import top

NEAREST = 20
QUERIES = 1000
CHUNK = 65_536
"""Members of the bank that the bare search compares at a time."""


def tasks(device: Device) -> Iterator[Task]:
    """Yield a task for a bank on the device, and one for a bank of the host."""
    members, dim = (10**6, 1024) if device.is_gpu else (2000, 64)
    for where in ("device", "host"):
        name = f"{members:,} × {dim}, on the {where}"
        yield Task("bank", name, partial(_measure, device, members, dim, where), 90.0)


def bare(queries: Tensor, bank: Tensor) -> Tensor:
    """Return the positions of the nearest, by one product and one choice for each chunk."""
    best: Tensor | None = None
    places: Tensor | None = None
    for start in range(0, len(bank), CHUNK):
        values, found = (queries @ bank[start : start + CHUNK].T).topk(min(NEAREST, len(bank) - start), dim=1)
        values = values if best is None else torch.cat([best, values], 1)
        found = found + start if places is None else torch.cat([places, found + start], 1)
        best, chosen = values.topk(min(NEAREST, values.shape[1]), dim=1)
        places = found.gather(1, chosen)
    assert places is not None
    return places


def _measure(device: Device, members: int, dim: int, where: str) -> Finding:
    random = torch.Generator(device.name).manual_seed(0)
    reps = torch.randn(members, dim, device=device.name, generator=random)
    bank = torch.nn.functional.normalize(reps)
    del reps
    queries = bank[: min(QUERIES, members // 4)].clone()
    held = bank if where == "device" else bank.cpu()
    found: dict[str, Tensor] = {}
    with use_precision("float32", queries.device):
        bare(queries, bank)  # warms up
        floor = device.seconds(lambda: found.update(bare=bare(queries, bank)))
        spent = device.seconds(lambda: found.update(ours=top(queries, held.split(CHUNK), NEAREST)[1]))
    agree = float((found["bare"].cpu() == found["ours"].cpu()).double().mean())
    ratio = spent / floor
    told = f"{spent:.2f} s for {len(queries):,} queries, {ratio:.1f} × bare; {agree:.2%} of places equal"
    return Finding(told, "≥ 99.9 %", agree >= 0.999, {"seconds": spent, "ratio": ratio, "agree": agree})
