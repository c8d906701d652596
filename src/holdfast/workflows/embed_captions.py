"""Captions as points of an encoder's space: what image-text retrieval searches among."""

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from holdfast.runtime.checked import check_arguments
from holdfast.runtime.doors import read_list
from holdfast.runtime.errors import BadData, os_reason
from holdfast.runtime.listener import Listener
from holdfast.runtime.privacy import public
from holdfast.storage.outputs import write_file
from holdfast.workflows.embed_names import embed_texts, safetensors_place

COLUMNS = ("id", "caption")


@check_arguments
def embed_captions(
    encoder: str,
    captions: Sequence[tuple[str, str]] | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    listener: Listener | None = None,
) -> Path:
    """Write the embeddings of captions and the ids of their images, for the measure `caption_retrieval`.

    Returns:
        The file.
    """
    rows = _read(Path(captions)) if isinstance(captions, str | os.PathLike) else list(captions)
    _check(rows)
    safetensors_place(out)
    texts = list(dict.fromkeys(caption for _, caption in rows))  # equal captions are exactly equal points
    points = embed_texts(encoder, texts, listener)
    place = {text: number for number, text in enumerate(texts)}
    embeddings = points[torch.tensor([place[caption] for _, caption in rows])].contiguous()
    about = {"encoder": public(encoder)}
    about |= {"ids": json.dumps([image for image, _ in rows]), "captions": json.dumps([text for _, text in rows])}
    write_file(str(out), lambda path: save_file({"embeddings": embeddings}, path, about))
    return Path(out)


def _read(path: Path) -> list[tuple[str, str]]:
    """Return the rows of a table."""
    try:
        text = io.StringIO(read_list(path, "utf-8-sig"))
        table = csv.DictReader(text, delimiter="\t" if path.suffix == ".tsv" else ",")
        names = [name.strip() for name in table.fieldnames or () if name]
        table.fieldnames = names
        if missing := [column for column in COLUMNS if column not in names]:
            raise BadData(
                f"{path}: expected a first line with the columns id and caption, got no {missing[0]!r} in "
                f"{', '.join(map(repr, names[:5])) or 'an empty file'}"
            )
        return [((row["id"] or "").strip(), (row["caption"] or "").strip()) for row in table]
    except UnicodeDecodeError as error:
        raise BadData(f"{path}: expected a table in UTF-8 with the columns id and caption ({error})") from error
    except csv.Error as error:
        raise BadData(f"{path}: expected a table with the columns id and caption ({error})") from error
    except OSError as error:
        raise BadData(f"captions: cannot read {str(path)!r}: {os_reason(error)}") from error


def _check(rows: Sequence[tuple[str, str]]) -> None:
    """Raise what is wrong with captions."""
    if not rows:
        raise BadData("captions: expected at least one, got none")
    for number, (image, caption) in enumerate(rows, 1):
        if not image.strip() or not caption.strip():
            what = "caption" if image.strip() else "id"
            raise BadData(f"captions: expected an id and a caption in each row, row {number} has no {what}")
    if len(set(rows)) < len(rows):
        image, caption = next(row for row in rows if rows.count(row) > 1)
        raise BadData(f"captions: expected each once for an image, got {caption!r} twice for {image!r}")
