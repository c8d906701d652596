"""holdfast train: a recipe."""

import time
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import completion
from holdfast.cli.common import (
    DeviceOption,
    JsonOption,
    QuietOption,
    SeedOption,
    command_line,
    listening,
    show,
)
from holdfast.storage.filesystem import local_folder


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe.toml: encoder, data, method, and how; see recipes/.")],
    data: Annotated[
        str | None, typer.Option(autocompletion=completion.data, help="Images to learn from, instead of the recipe's.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="key=value, such as adversary.threat.radius=0.1.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the images, instead of the recipe's.")] = None,
    images: Annotated[int | None, typer.Option(help="How many images to learn from. (default: all)")] = None,
    track: Annotated[list[str] | None, typer.Option(help="Experiment trackers: tensorboard, mlflow, trackio.")] = None,
    out_folder: Annotated[
        Path, typer.Option("--out", parser=local_folder, help="Run folder; an interrupted training resumes.")
    ] = Path("holdfast-train"),
    device: DeviceOption = None,
    seed: SeedOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train an encoder from a recipe, with or without an adversary; torchrun starts several processes."""
    from holdfast.report.documents.training import document
    from holdfast.runtime.distributed import leads
    from holdfast.storage.entry import read_json
    from holdfast.storage.monitor import MonitorRecord
    from holdfast.storage.run_folder import Store
    from holdfast.training.loop import train as run
    from holdfast.training.recipe_file import read_beside, read_recipe
    from holdfast.workflows.monitor.training_monitor import monitors_of

    # The recipe, and what its file says beside it: monitors and trackers
    options = {"data": data, "epochs": epochs, "images": images, "device": device, "seed": seed}
    plan, beside = read_recipe(recipe, settings or (), **options), read_beside(recipe, settings or ())
    speaks, began = leads(), time.perf_counter()
    watches = "monitor" in beside and speaks
    monitors = monitors_of(beside["monitor"], plan, Store(out_folder)) if watches else ()
    watchers = {"track": track or beside.get("track", ()), "monitors": monitors, "command": command_line()}
    with listening(quiet) as bars:
        trained = run(plan, out_folder, listener=bars if speaks else None, **watchers)
    if not speaks:
        return
    # The answer
    seen = [read_json(monitor.summary(), MonitorRecord) for monitor in monitors]
    last = {"steps": trained.steps, "resumed": trained.resumed, "loss": trained.rows[-1]["loss"]}
    facts = {"encoder": trained.spec, **last, "monitors": seen}
    show(facts, json_output, lambda: document(trained, seen, time.perf_counter() - began))
