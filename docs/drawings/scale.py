"""Time and memory of audits of a free encoder against their images, as last measured."""

import json
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from drawings import BLUE, GREY, save

MEASURED = Path(__file__).parents[2] / "benchmarks" / "measured.json"


def draw() -> None:
    """Time and memory of audits of a free encoder against their images, as last measured."""
    results = json.loads(MEASURED.read_text(encoding="utf-8"))["scale"]["results"]
    figure, axes = plt.subplots(1, 2)
    for axis, curve in zip(axes, (result["curve"] for result in results if "curve" in result), strict=True):
        sizes, values = np.array(curve["sizes"]), np.array(curve["values"])
        axis.loglog(sizes, values, "o-", color=BLUE, markersize=3)
        if curve["y"] == "MiB":
            axis.loglog(sizes, 2 * sizes * 32 * 4 / 2**20, "--", color=GREY, label="of which representations")
            axis.set_ylabel("peak memory above the start, MiB")
        else:
            axis.loglog(sizes, values[-1] * sizes / sizes[-1], "--", color=GREY, label="in proportion to images")
            axis.set_ylabel("processor seconds")
        axis.set_xlabel("images")
        axis.legend(frameon=False)
    save(figure, "scale")
