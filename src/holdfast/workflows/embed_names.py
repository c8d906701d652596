"""Names of classes as points of an encoder's space: what a zero-shot classifier is made of."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor

from holdfast.numerics.geometry.class_directions import directions
from holdfast.runtime.checked import check_arguments
from holdfast.runtime.doors import read_list
from holdfast.runtime.errors import BadData, BadValue, os_reason
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import public
from holdfast.sources.encoders import open_texts
from holdfast.storage.outputs import write_file

TEMPLATE = "a photo of a {}."
BATCH = 64
"""Texts per pass of the text tower."""


@check_arguments
def embed_names(
    encoder: str,
    names: Sequence[str] | str | os.PathLike[str],
    *,
    templates: Sequence[str] = (TEMPLATE,),
    out: str | os.PathLike[str],
    listener: Listener | None = None,
) -> Path:
    """Write the embeddings of class names in every template, for the probe `zero_shot`.

    Returns:
        The file.
    """
    names = _read(Path(names)) if isinstance(names, str | os.PathLike) else list(names)
    _check(names, templates)
    safetensors_place(out)
    texts = [template.replace("{}", name) for name in names for template in templates]
    embeddings = embed_texts(encoder, texts, listener).unflatten(0, (len(names), len(templates))).contiguous()
    tensors = {"embeddings": embeddings, "weight": directions(embeddings, encoder)}
    about = {"encoder": public(encoder), "names": json.dumps(names), "templates": json.dumps(list(templates))}
    write_file(str(out), lambda path: save_file(tensors, path, about))
    return Path(out)


def safetensors_place(out: str | os.PathLike[str]) -> None:
    """Raise where a file would not be called as its format is."""
    if Path(out).suffix != ".safetensors":
        raise BadValue(f"out: expected a file that ends in .safetensors, got {str(out)!r}")


def embed_texts(encoder: str, texts: Sequence[str], listener: Listener | None) -> Float[Tensor, "texts dim"]:
    """Return the embeddings of texts by the tower of an encoder, some at a time."""
    tower = open_texts(encoder)
    listener = listener or Silent()
    listener.begin(encoder, len(texts), "texts")
    parts = []
    for first in range(0, len(texts), BATCH):
        parts.append(tower(texts[first : first + BATCH]))
        listener.advance(len(parts[-1]))
    return torch.cat(parts)


def _read(path: Path) -> list[str]:
    """Return the lines of a file."""
    try:
        lines = read_list(path).splitlines()
    except UnicodeDecodeError as error:
        raise BadData(f"{path}: expected a text file in UTF-8 with a name in each line ({error})") from error
    except OSError as error:
        raise BadData(f"names: cannot read {str(path)!r}: {os_reason(error)}") from error
    return [line.strip() for line in lines]


def _check(names: Sequence[str], templates: Sequence[str]) -> None:
    """Raise what is wrong with names and templates."""
    empty = [number for number, name in enumerate(names, 1) if not name.strip()]
    if len(names) < 2 or empty:
        where = f"line {empty[0]} is empty" if empty else f"got {len(names)}"
        raise BadData(f"names: expected at least two, one for each class in the order of its label; {where}")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadData(f"names: expected different ones, got {twice!r} twice: no classifier tells these apart")
    if not templates or any(template.count("{}") != 1 for template in templates):
        raise BadValue(f"templates: expected one {{}} in each, such as {TEMPLATE!r}, got {list(templates)}")
