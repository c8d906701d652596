"""holdfast embed-names: class names as a zero-shot classifier."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import completion
from holdfast.cli.common import JsonOption, QuietOption, listening, out, show


def embed_names(
    encoder: Annotated[
        str,
        typer.Argument(autocompletion=completion.encoders, help="Encoder spec with a text tower: openclip: or hf:."),
    ],
    names: Annotated[Path, typer.Option(help="File with a class name in each line, in the order of the labels.")],
    template: Annotated[
        list[str] | None,
        typer.Option(help='Prompt with {} for the name; repeatable. (default: "a photo of a {}.")'),
    ] = None,
    out_file: Annotated[Path, typer.Option("--out", help="File for the embeddings.")] = Path("names.safetensors"),
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the embeddings of class names by an encoder's text tower, for the probe zero_shot."""
    from holdfast.workflows.embed_names import TEMPLATE
    from holdfast.workflows.embed_names import embed_names as run

    with listening(quiet) as bars:
        path = run(encoder, names, templates=template or (TEMPLATE,), out=out_file, listener=bars)

    def draw() -> None:
        out.print(f"{path}: measure with it: --measure 'robust_accuracy[probe=zero_shot[path={path}]]'", soft_wrap=True)

    show({"path": str(path)}, json_output, draw)
