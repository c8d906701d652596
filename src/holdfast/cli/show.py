"""holdfast show: a part or an encoder explained."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import completion
from holdfast.cli.common import out
from holdfast.runtime.errors import Conflict, Missing


def show(
    name: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.offer_topics,
            help="A measure, attack or other part; a profile; or an encoder spec.",
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(autocompletion=completion.data, help="Images for the encoder to see: a folder, a file or a spec."),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option("--out", help="PNG file with five of them as the encoder sees them. (default: seen.png)"),
    ] = None,
) -> None:
    """Explain a part (formula, parameters), a profile (its measures) or an encoder (how images become its input)."""
    from holdfast.report.parts import names_encoder
    from holdfast.report.render import print_document

    if path is not None and data is None:
        raise Missing("--out: expected --data as well, images of which a picture is made")
    if not names_encoder(name):
        if data is not None:
            raise Conflict(f"--data: expected an encoder to see the images, such as timm:resnet18, got {name!r}")
        from holdfast.report.documents.part import document as document_part

        print_document(document_part(name), out)
        return
    from holdfast.report.document import ToCopy
    from holdfast.report.documents.encoder import document
    from holdfast.report.seen import SHOWN, write_row
    from holdfast.sources.data import open_images
    from holdfast.sources.encoders import open_encoder

    encoder = open_encoder(name)
    if data is None:
        print_document(document(encoder), out)
        return
    images = open_images(data, geometry=encoder.geometry, images=SHOWN)
    images = images.with_geometry(encoder.geometry or images.common_geometry)
    x = images.batch(0, len(images))
    file = Path("seen.png" if path is None else path)
    write_row(x, file)
    picture = f"{len(images)} of {images.available} images as it sees them, before normalisation"
    print_document([*document(encoder, x, images.geometry), ToCopy({picture: str(file)})], out)
