"""Time of the common corruptions, as a ratio of the published route: one image after another, NumPy, SciPy, OpenCV.

    python -m benchmarks.common_corruptions [--json]

64 RGB images of 224 x 224 pixels, one thread, processor time of this process, all five severities of ImageNet-C. Ours
is the whole call, with its random numbers and the cut to 8 bits; so is the published route (`published_corruptions`),
but it is timed on fewer images. It needs OpenCV, scikit-image and Wand, which needs ImageMagick.
"""

import importlib
import sys
from time import process_time

import numpy as np
import torch

from benchmarks.published_corruptions import FUNCTIONS
from benchmarks.result import Result, from_rounds, report
from holdfast.core import Rng
from holdfast.parts.threats.imagenet_c import ImagenetC
from holdfast.parts.threats.imagenet_c.constants import IMAGENET

TARGET = 0.1
AIMED = tuple(FUNCTIONS)[:6]
BATCH, SIDE, ROUNDS = 64, 224, 3
FEW = {"glass_blur": 1, "zoom_blur": 4, "motion_blur": 4}
"""Images that the published route is timed on; 8 else."""

FAST = (
    "gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "gaussian_blur", "zoom_blur", "snow", "fog",
    "contrast", "pixelate", "jpeg_compression", "motion_blur_in_numpy",
)  # fmt: skip
"""Those whose published route takes some milliseconds, and nothing but SciPy and Pillow."""
SHORT = tuple(f"{name} / published" for name in FAST)
"""Names of what `short` measures."""

NEEDS = {
    "defocus_blur": "cv2",
    "spatter": "cv2",
    "elastic_transform": "cv2",
    "brightness": "skimage",
    "saturate": "skimage",
    "motion_blur": "wand.image",
}


def measure() -> list[Result]:
    """Return, for every corruption, our time as a share of that of the published route."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_ratio(name) for name in FUNCTIONS if _installed(name)]
    finally:
        torch.set_num_threads(threads)


def _installed(name: str) -> bool:
    try:
        module = importlib.import_module(NEEDS.get(name, "numpy"))
    except ImportError as error:
        print(f"{name} skipped: its published route needs {NEEDS[name]}: {error}", file=sys.stderr)
        return False
    if NEEDS.get(name) == "cv2":
        module.setNumThreads(1)
    elif NEEDS.get(name) == "wand.image":
        from wand.resource import limits

        limits["thread"] = 1
    return True


def _ratio(name: str, rounds: int = ROUNDS) -> Result:
    levels = torch.randint(256, (BATCH, 3, SIDE, SIDE), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    x, rng = levels.float() / 255, Rng(0, ids=tuple(str(i) for i in range(BATCH)))
    pictures = list(levels[: FEW.get(name, 8)].permute(0, 2, 3, 1).contiguous().numpy())
    corruption, ours, theirs = name.removesuffix("_in_numpy"), np.zeros((rounds + 1, 5)), np.zeros((rounds + 1, 5))
    for turn in range(rounds + 1):
        for severity, constants in enumerate(IMAGENET[corruption]):
            began = process_time()
            ImagenetC(corruption, severity + 1, "imagenet").sample(x, rng)
            ours[turn, severity] = 1e3 * (process_time() - began) / BATCH
            random, began = np.random.default_rng(0), process_time()
            np.stack([np.uint8(FUNCTIONS[name](image, random, *constants).clip(0, 255)) for image in pictures])
            theirs[turn, severity] = 1e3 * (process_time() - began) / len(pictures)
    ours, theirs = ours[1:], theirs[1:]  # the first round warms up
    each = np.median(ours / theirs, 0)
    note = (
        f"{np.median(ours):.2f} ms instead of {np.median(theirs):.1f} per image; "
        f"severities {each.min():.3f} to {each.max():.3f}"
    )
    return from_rounds(
        f"{name} / published", (ours.sum(1) / theirs.sum(1)).tolist(), TARGET if name in AIMED else None, note
    )


def short() -> list[Result]:
    """Return the ratios of `FAST`, of fewer rounds."""
    return [_ratio(name, 2) for name in FAST]


if __name__ == "__main__":
    report(measure, __doc__)
