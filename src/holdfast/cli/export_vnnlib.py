"""holdfast export-vnnlib: questions for other verifiers."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import completion
from holdfast.cli.common import EpsOption, JsonOption, QuietOption, SeedOption, listening, show, warn
from holdfast.storage.filesystem import local_folder


def export_vnnlib(
    encoder: Annotated[
        str, typer.Argument(autocompletion=completion.encoders, help="Encoder spec, see holdfast list encoders.")
    ],
    data: Annotated[str, typer.Option(autocompletion=completion.data, help="Images, see holdfast list data.")],
    eps: EpsOption = None,
    norm: Annotated[
        str,
        typer.Option(
            autocompletion=completion.offer_words("linf"), help="Norm of the ball: linf; VNN-LIB has boxes alone."
        ),
    ] = "linf",
    images: Annotated[int, typer.Option(help="Images to draw negatives from, and to ask about.")] = 10,
    image: Annotated[
        list[int] | None, typer.Option(help="Ask about this one of them, from 0; repeatable. (default: all)")
    ] = None,
    negatives: Annotated[int, typer.Option(help="Other images that each is compared with.")] = 9,
    divergence: Annotated[str, typer.Option(help='What "nearer" means: cosine or l2.')] = "cosine",
    head: Annotated[
        str | None, typer.Option(help="A linear head (.safetensors, .onnx): ask about its classes instead of pairs.")
    ] = None,
    label: Annotated[
        bool, typer.Option("--label", help="With --head: the label, not the class that the clean image gets.")
    ] = False,
    seconds: Annotated[float, typer.Option(help="Time for each question, in instances.csv.")] = 300.0,
    out_folder: Annotated[Path, typer.Option("--out", parser=local_folder, help="Folder for the files.")] = Path(
        "holdfast-vnnlib"
    ),
    seed: SeedOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write what certificates answer as ONNX and VNN-LIB files, for other verifiers."""
    from holdfast.report.document import ToCopy
    from holdfast.report.table import Table
    from holdfast.workflows.exchange.export import export_vnnlib as run

    with listening(quiet) as bars:
        instances = run(
            encoder,
            data,
            out=out_folder,
            eps=eps,
            norm=norm,
            images=images,
            image=image or (),
            negatives=negatives,
            divergence=divergence,
            head=head,
            label=label,
            seconds=seconds,
            seed=seed or 0,
            listener=bars,
        )
    rows = [[instance.image, instance.vnnlib, instance.onnx, f"{instance.margin:.4g}"] for instance in instances]
    shown = [
        Table(("image", "query", "network", "clean margin"), rows, words=(0, 1, 2)),
        ToCopy({"all of them": f"{out_folder}/instances.csv"}),
    ]
    show(
        {"folder": str(out_folder), "instances": [asdict(instance) for instance in instances]},
        json_output,
        lambda: shown,
    )
    if lost := sum(instance.margin <= 0 for instance in instances):
        warn("sat already:", f"{lost} of {len(instances)} clean images are unsafe as they are, without any change")
