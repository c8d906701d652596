"""Time to fingerprint 60,000 small images: SHA-256 of each one's decoded content, and which of them look alike.

    python -m benchmarks.fingerprints [--json]

Pictures of 32 x 32 in colour, coarse random shapes with some noise, in memory and in an .npz file; beside them SHA-256
alone on as many bytes, which no fingerprint of the same content can do without. Processor time of all threads.
"""

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.paced import seconds
from benchmarks.result import Result, report
from holdfast.core import ImageSource
from holdfast.sources.data import open_images
from holdfast.sources.data.arrays import Arrays

TARGET = 1.0
IMAGES, SIDE = 60_000, 32


def pictures(count: int) -> np.ndarray:
    """Return pictures that differ in what they show, [count, 32, 32, 3] in 8 bits."""
    draw = np.random.default_rng(0)
    coarse = draw.integers(20, 236, (count, 4, 4, 3), dtype=np.int16)
    noise = draw.integers(-20, 20, (1000, SIDE, SIDE, 3), dtype=np.int16)
    blocks = [
        coarse[at : at + 1000].repeat(SIDE // 4, 1).repeat(SIDE // 4, 2) + noise[: count - at]
        for at in range(0, count, 1000)
    ]
    return np.concatenate([block.astype(np.uint8) for block in blocks])


def measure(images: int = IMAGES) -> list[Result]:
    """Return processor seconds.

    Args:
        images: how many.
    """
    drawn, own = pictures(images), 3 * 4 * SIDE**2
    content = bytes(own)
    bare = seconds(lambda: [hashlib.sha256(content).hexdigest() for _ in range(images)])
    results = [Result(f"SHA-256 of {images:,} x {own:,} bytes", bare, None, "s", None, "float32 pixels, as hashed")]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "images.npz"
        np.savez(file, images=drawn)
        kinds: dict[str, ImageSource | str] = {"in memory": Arrays(drawn, name="memory"), ".npz": str(file)}
        for kind, source in kinds.items():
            taken = seconds(lambda: open_images(source).fingerprint)  # noqa: B023
            note = f"{1e6 * taken / images:.0f} µs an image, {taken / bare:.1f} times SHA-256 alone"
            results.append(Result(f"fingerprint of {images:,} images, {kind}", taken, None, "s", TARGET, note))
    return results


if __name__ == "__main__":
    report(measure, __doc__)
