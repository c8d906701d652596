"""holdfast compare-index: a new encoder in the place of the one behind an index."""

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import completion
from holdfast.cli.common import (
    DeviceOption,
    JsonOption,
    QuietOption,
    SeedOption,
    brief,
    command_line,
    listening,
    number,
    show,
)
from holdfast.storage.filesystem import local_folder


def compare_index(
    old: Annotated[str, typer.Argument(autocompletion=completion.encoders, help="Encoder behind the index.")],
    new: Annotated[str, typer.Argument(autocompletion=completion.encoders, help="Encoder that is to replace it.")],
    data: Annotated[str, typer.Option(autocompletion=completion.data, help="Images, see holdfast list data.")],
    images: Annotated[int | None, typer.Option(help="How many of the images. (default: all)")] = None,
    k: Annotated[list[int] | None, typer.Option(help="Neighbours to look at; repeatable. (default: 1, 5, 10)")] = None,
    divergence: Annotated[str, typer.Option(help="Distance of representations: l2, cosine, ...")] = "l2",
    rate: Annotated[
        float | None,
        typer.Option(parser=number, help="Share of false positives at which thresholds are set. (default: 0.001)"),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(parser=number, help="The old threshold, a distance, instead of --rate.")
    ] = None,
    canaries: Annotated[
        Path | None,
        typer.Option(help="CSV file of pairs by image id: first,second,together or first,second,apart."),
    ] = None,
    edits: Annotated[
        bool, typer.Option("--edits", help="Also search and match edited copies: JPEG, resizing, crops, light.")
    ] = False,
    require: Annotated[
        list[str] | None,
        typer.Option(help="'overlap@10 > 90 %': what the new encoder must hold, as for check; repeatable."),
    ] = None,
    out_folder: Annotated[
        Path, typer.Option("--out", parser=local_folder, help="Folder: record, representations, report.")
    ] = Path("holdfast-index"),
    device: DeviceOption = None,
    seed: SeedOption = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per encoder pass. (default: by image size)")] = None,
    skip_corrupt: Annotated[bool, typer.Option("--skip-corrupt", help="Leave out unreadable files.")] = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare the encoder behind an index with its successor: neighbours kept, thresholds moved, canaries.

    Exit status 1 where a requirement is not met, or a canary is right with the old encoder and wrong with the new one.
    """
    from holdfast.report.documents.index_upgrade import document
    from holdfast.report.index_upgrade import publish
    from holdfast.workflows.compare_index.plan import IndexPlan
    from holdfast.workflows.compare_index.run import compare_index as run

    chosen: dict[str, Any] = {"k": tuple(k)} if k else {}
    plan = IndexPlan(
        old,
        new,
        data,
        images=images,
        divergence=divergence,
        rate=rate,
        threshold=threshold,
        canaries=None if canaries is None else str(canaries),
        edits=edits,
        seed=seed or 0,
        device=device or "cpu",
        batch_size=batch_size,
        skip_corrupt=skip_corrupt,
        **chosen,
    )
    with listening(quiet) as bars:
        record = run(plan, out_folder, requirements=require or (), listener=bars, command=command_line())
        bars.stage("writing the report")
        report = publish(out_folder, record)

    show(record, json_output, document(record, brief(report)))
    if not record.passed:
        raise typer.Exit(record.status)
