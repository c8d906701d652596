"""Engines with a GPU each, and training and hardening on the device."""

import math
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

import holdfast
from benchmarks.gpu.device import Device
from benchmarks.gpu.row import Report, Row
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.run import run_audit
from holdfast.core import registry
from holdfast.training.loop import train
from holdfast.training.recipe_file import make_recipe

LIMIT = 0.05
"""Most by which the loss after some steps may differ from the CPU's, as a share of it."""


def engines(report: Report, device: Device, small: bool) -> None:
    """Add a row for each engine: two workers, a GPU each, find what one process finds."""
    gpus = torch.cuda.device_count() if device.is_gpu else 0
    for name in ("processes", "ray"):
        if device.is_gpu and gpus < 2:
            report.add(Row("engines", name, f"skipped: {gpus} GPU, two are needed"))
        elif name == "ray" and (small or find_spec("ray") is None):
            report.add(Row("engines", name, "skipped: in a rehearsal" if small else "skipped: Ray is not installed"))
        else:
            report.attempt("engines", name, partial(_engine, device, name, gpus))


def _engine(device: Device, name: str, gpus: int) -> Row:
    place = "cuda" if gpus else "cpu"
    plan = make_plan(
        ["zoo:digits-simclr"], "digits", images=24, attacked=4, examined=1, queries=4, budget="none", device=place
    )
    fields: dict[str, Any] = {"workers": 2, "gpus": (1.0 if gpus else 0.0) if name == "ray" else gpus}
    with tempfile.TemporaryDirectory() as folder:
        run_audit(plan, f"{folder}/several", engine=registry.part("engines", name, **fields))
        run_audit(plan, f"{folder}/one")
        several, alone = (
            holdfast.open(f"{folder}/{part}").data["encoders"][0]["measures"] for part in ("several", "one")
        )
    same = all(several[measure]["scores"] == entry["scores"] for measure, entry in alone.items())
    return Row("engines", name, "the same scores" if same else "other scores", "the same scores", same)


def trainings(report: Report, device: Device, small: bool) -> None:
    """Add a row for training without and with an adversary, by accelerate."""
    if find_spec("accelerate") is None or find_spec("lightly") is None:
        report.add(Row("training", "simclr", "skipped: needs holdfast[train]"))
        return
    adversaries: dict[str, dict[str, Any]] = {"simclr": {}, "simclr, hardened": {"adversary": {"weight": 1.0}}}
    for name, table in adversaries.items():
        report.attempt("training", name, partial(_training, device, name, table, 3 if small else 10))


def _training(device: Device, name: str, table: dict[str, Any], steps: int) -> Row:
    from accelerate.state import AcceleratorState

    recipe = {"encoder": "zoo:digits_cnn", "data": "digits?part=train", "steps": steps, "batch_size": 64}
    losses = []
    for place in ("cuda" if device.is_gpu else "cpu", "cpu"):
        AcceleratorState._reset_state(True)  # which keeps the first device of a process
        with tempfile.TemporaryDirectory() as folder:
            made = make_recipe({**recipe, "method": {"name": "simclr"}, "device": place, **table})
            losses.append(train(made, Path(folder) / "run").rows[-1]["loss"])
    apart = abs(losses[0] - losses[1]) / abs(losses[1]) if math.isfinite(losses[0]) else math.inf
    return Row("training", name, f"loss after {steps} steps apart {apart:.2g}", f"≤ {LIMIT}", apart <= LIMIT)
