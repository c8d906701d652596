"""holdfast harden: a training between two audits."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import completion
from holdfast.cli.common import DeviceOption, EpsOption, JsonOption, QuietOption, listening, partly, show
from holdfast.storage.filesystem import local_folder


def harden(
    encoder: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.encoders, help="Encoder spec, see holdfast list encoders; it is not changed."
        ),
    ],
    data: Annotated[
        str, typer.Option(autocompletion=completion.data, help="Images to learn from; labels are not needed.")
    ],
    objective: Annotated[
        str,
        typer.Option(
            autocompletion=completion.of_kind("methods"),
            help=r"auto (its own representations), fare, tecoa\[path=FILE], or see holdfast list methods.",
        ),
    ] = "auto",
    budget: Annotated[
        str, typer.Option(help="Time for training, such as 90s, 30m or 2h; the audits come on top.")
    ] = "30m",
    steps: Annotated[int | None, typer.Option(help="Steps of the training, instead of a budget.")] = None,
    pace: Annotated[
        Path | None, typer.Option(help="harden.json of an earlier run with a budget: repeat exactly its steps.")
    ] = None,
    eps: EpsOption = None,
    norm: Annotated[
        str,
        typer.Option(
            autocompletion=completion.offer_words(*completion.NORMS), help="Norm of the ball: linf, l2 or patch."
        ),
    ] = "linf",
    attack: Annotated[
        str | None,
        typer.Option(
            help="What the adversary maximises: untargeted, targeted or loss. (default: as the objective has it)"
        ),
    ] = None,
    views: Annotated[str | None, typer.Option(help="Augmentation: none, light or full.")] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Learning rate, in units of each weight's size. (default: tried on a few steps)"),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Images per step.")] = 64,
    batchnorm: Annotated[
        str, typer.Option(help="Whose statistics attacked images share: shared, split or frozen.")
    ] = "shared",
    test: Annotated[
        str | None,
        typer.Option(autocompletion=completion.data, help="Images of the audits. (default: some of --data, held out)"),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(autocompletion=completion.data, help="Labelled images for the kNN accuracy before and after."),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(help="A linear head in use (.safetensors, .onnx); reports its accuracy before and after."),
    ] = None,
    profile: Annotated[
        str, typer.Option(autocompletion=completion.profiles, help="Profile of the audits, see holdfast list profiles.")
    ] = "hardening",
    out_folder: Annotated[
        Path, typer.Option("--out", parser=local_folder, help="Run folder; an interrupted run resumes.")
    ] = Path("holdfast-harden"),
    device: DeviceOption = None,
    seed: Annotated[int, typer.Option(help="Seed for everything random.")] = 0,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make an encoder more robust, without labels, and audit it before and after."""
    from holdfast.report.documents.hardening import document, has_measurements
    from holdfast.runtime.durations import seconds
    from holdfast.workflows.harden.plan import Hardening, read_pace
    from holdfast.workflows.harden.run import harden as run

    options = {"attack": attack, "norm": norm, "eps": eps, "views": views, "rate": rate, "batch_size": batch_size}
    options |= {"test": test, "train": train, "head": head, "profile": profile, "seed": seed, "device": device or "cpu"}
    options |= {"batchnorm": batchnorm, "budget": seconds(budget)}
    if pace is not None:
        steps, options["pace"] = read_pace(pace)
    with listening(quiet) as bars:
        record = run(Hardening(encoder, data, objective, steps=steps, **options), out_folder, listener=bars).record
    show(record, json_output, document(record))
    partly(record.failures, has_measurements(record))
