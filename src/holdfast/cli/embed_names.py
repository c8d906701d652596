"""holdfast embed-names: class names or captions as points of an encoder's space."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import completion
from holdfast.cli.common import JsonOption, QuietOption, listening, show


def embed_names(
    encoder: Annotated[
        str,
        typer.Argument(autocompletion=completion.encoders, help="Encoder spec with a text tower: openclip: or hf:."),
    ],
    names: Annotated[
        Path | None, typer.Option(help="File with a class name in each line, in the order of the labels.")
    ] = None,
    captions: Annotated[
        Path | None,
        typer.Option(help="Table with the columns id (of an image) and caption, .csv or .tsv, instead of names."),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(help='Prompt with {} for the name; repeatable. (default: "a photo of a {}.")'),
    ] = None,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="File for the embeddings. (default: names.safetensors or captions.safetensors)"),
    ] = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the embeddings of class names, for the probe zero_shot, or of captions, for caption_retrieval."""
    from holdfast.report.document import ToCopy
    from holdfast.workflows.embed_captions import embed_captions
    from holdfast.workflows.embed_names import TEMPLATE
    from holdfast.workflows.embed_names import embed_names as run

    if (names is None) == (captions is None) or (captions is not None and template):
        raise typer.BadParameter("expected either --names, with or without --template, or --captions alone")
    with listening(quiet) as bars:
        if names is not None:
            place = out_file or Path("names.safetensors")
            path = run(encoder, names, templates=template or (TEMPLATE,), out=place, listener=bars)
            use = f"robust_accuracy[probe=zero_shot[path={path}]]"
        else:
            assert captions is not None
            path = embed_captions(encoder, captions, out=out_file or Path("captions.safetensors"), listener=bars)
            use = f"caption_retrieval[path={path}]"
    show({"path": str(path)}, json_output, lambda: [ToCopy({f"{path}: measure with it": f"--measure '{use}'"})])
