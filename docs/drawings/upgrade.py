"""Thresholds of two encoders of one index, and what each image keeps of its neighbours."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from matplotlib import pyplot as plt

from drawings import BLUE, ENCODERS, GREY, ORANGE, save


def draw() -> None:
    """Thresholds of two encoders of one index, and what each image keeps of its neighbours."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["compare-index", *ENCODERS, "--data", "digits", "--out", folder, "--quiet", "--json"]
        run = subprocess.run([sys.executable, "-m", "holdfast", *command], check=True, capture_output=True)
        record = json.loads(run.stdout)
        kept = pq.read_table(Path(folder) / record["table"])["overlap@10"].to_numpy()
    rows = [row for row in record["translation"] if row["low"] is not None]
    old, new, low, high = (np.array([row[key] for row in rows]) for key in ("old", "new", "low", "high"))
    scale = record["measures"]["distance_scale"]["scores"]["mean"]["value"]
    limits = record["measures"]["threshold"]["scores"]
    figure, (left, right) = plt.subplots(1, 2)
    left.fill_between(old, low, high, color=BLUE, alpha=0.2, lw=0)
    left.plot(old, new, color=BLUE, label="same false-positive rate")
    left.plot(old, scale * old, color=GREY, ls="--", label="one factor")
    left.plot(limits["old"]["value"], limits["new"]["value"], "o", color=ORANGE, label="rate 0.1 %")
    left.set_xlabel("threshold, old encoder")
    left.set_ylabel("threshold, new encoder")
    left.legend(frameon=False, fontsize=8)
    right.bar(np.arange(11) / 10, np.bincount((10 * kept).round().astype(int), minlength=11), 0.08, color=BLUE)
    right.axvline(kept.mean(), color=ORANGE)
    right.set_xlabel("first 10 neighbours kept")
    right.set_ylabel("images")
    save(figure, "upgrade")
