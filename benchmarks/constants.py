"""What a plan on paper needs: the cost of a pass, a decoded image, a certificate, a pair and a shard on this machine.

    python -m benchmarks.constants [--json]

One thread, processor time, medians of some rounds; random weights, which cost what trained ones do. No targets. An
attack step is one forward and one input-gradient pass of the same images.
"""

import io
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import PIL.Image
import torch

from benchmarks.certificate_growth import seconds as certify
from benchmarks.result import Result, report
from holdfast.core import Encoder, Geometry
from holdfast.numerics.geometry import pairwise, top_k
from holdfast.numerics.geometry.cache import Remembered
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.divergences.l2 import L2
from holdfast.sources.data.shared.geometry import Conversion, fit
from holdfast.sources.encoders import open_encoder
from holdfast.storage.run_folder import Store

NETWORKS = ("resnet50", "vit_small_patch16_224")
BATCH, SIDE, ROUNDS = 8, 224, 3
PICTURE = (500, 375)
"""Width and height of a typical ImageNet picture."""


def timed(call: Callable[[], object], rounds: int) -> float:
    """Return the median processor time of a call, after one that warms up."""
    spent = []
    for _ in range(rounds + 1):
        pairwise._PLACED = Remembered(1)
        began = time.process_time()
        call()
        spent.append(time.process_time() - began)
    return median(spent[1:])


def passes(name: str, encoder: Encoder, batch: int, rounds: int) -> list[Result]:
    """Return the time of a forward pass, and of an attack step, per image."""
    geometry = encoder.geometry
    height, width = (SIDE, SIDE) if geometry is None else geometry.size
    x = torch.rand(batch, 3, height, width, generator=torch.Generator().manual_seed(0))

    def forward() -> None:
        with torch.no_grad():
            encoder(x)

    def step() -> None:
        pixels = x.clone().requires_grad_()
        torch.autograd.grad(encoder(pixels).sum(), pixels)

    one, both = timed(forward, rounds) / batch, timed(step, rounds) / batch
    note = f"batch {batch}, {height} x {width}; {1 / one:.1f} forward passes a second"
    return [
        Result(f"{name}, forward pass of an image", 1e3 * one, None, "ms", None, note),
        Result(f"{name}, attack step of an image", 1e3 * both, None, "ms", None, f"{both / one:.2f} forward passes"),
    ]


def decoding(rounds: int) -> Result:
    """Return the time from the bytes of a JPEG file to pixels at the encoder's size."""
    noise = np.random.default_rng(0).integers(256, size=(PICTURE[1] // 8, PICTURE[0] // 8, 3), dtype=np.uint8)
    held = io.BytesIO()
    PIL.Image.fromarray(noise).resize(PICTURE).save(held, "JPEG", quality=90)
    geometry = Geometry((SIDE, SIDE), 3, 256, "bicubic", "a benchmark")

    def decode() -> None:
        for _ in range(10):
            fit(PIL.Image.open(io.BytesIO(held.getvalue())).convert("RGB"), Conversion(), geometry)

    note = f"JPEG of {PICTURE[0]} x {PICTURE[1]}, {len(held.getvalue()) / 1024:.0f} kB, to {SIDE} x {SIDE}"
    return Result("decoding an image", 1e2 * timed(decode, rounds), None, "ms", None, note)


def pairs(rows: int, dim: int, rounds: int) -> list[Result]:
    """Return the time per pair of placing all pairs, and of finding the nearest."""
    bank = torch.randn(rows, dim, generator=torch.Generator().manual_seed(0))
    values = torch.linspace(0.8, 1.2, rows, dtype=torch.float64) * torch.dist(bank[0], bank[1]).double()
    placed = timed(lambda: pairwise.share_below(bank, values, L2()), rounds) / (rows * (rows - 1) / 2)
    found = timed(lambda: top_k.top(bank, [bank], min(20, rows)), rounds) / rows**2
    note = f"{rows:,} x {dim}"
    return [
        Result("placing a pair of representations", 1e9 * placed, None, "ns", None, note),
        Result("comparing with a member of a bank", 1e9 * found, None, "ns", None, f"{note}, 20 nearest"),
    ]


def certificate(rounds: int) -> Result:
    """Return the time of one image's radii against nine negatives."""
    encoder = open_encoder("zoo:cnn_a_mnist?seed=0&mean=0&std=1")
    x = torch.rand(rounds + 11, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        reps = encoder(x)
    margin = Cosine().between(reps[: rounds + 1], reps[None, -9:].expand(rounds + 1, -1, -1))
    times = [certify(encoder, x[i : i + 1], margin.part(slice(i, i + 1)), 1e-4) for i in range(rounds + 1)]
    spent = median(times[1:])
    note = "CNN-A, CROWN, 9 negatives, to 1e-4; transformers and ResNet-50 are not certified"
    return Result("certified radii of an image", 1e3 * spent, None, "ms", None, note)


def stored(rows: int, dim: int) -> Result:
    """Return the bytes on disk of one representation in a shard file."""
    with TemporaryDirectory() as folder:
        Store(folder).write_tensors("shard.safetensors", {"reps": torch.randn(rows, dim)}, {"forward": str(rows)})
        size = (Path(folder) / "shard.safetensors").stat().st_size
    return Result(
        "a stored representation", size / rows, None, "B", None, f"{rows} rows of {dim} in float32, one shard"
    )


def measure(
    networks: tuple[str, ...] = tuple(f"timm:{name}?weights=random" for name in NETWORKS),
    batch: int = BATCH,
    rows: int = 4000,
    rounds: int = ROUNDS,
) -> list[Result]:
    """Return the constants.

    Args:
        networks: encoder specs.
        batch: images in a pass.
        rows: representations that are compared.
        rounds: of which the median counts.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found: list[Result] = []
        for spec in networks:
            found += passes(spec.partition(":")[2].partition("?")[0], open_encoder(spec), batch, rounds)
        return [*found, decoding(rounds), *pairs(rows, 768, rounds), certificate(rounds), stored(rows, 768)]
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    report(measure, __doc__)
