"""The questions that certificates answer about an encoder, written as ONNX and VNN-LIB files for other verifiers."""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from holdfast.auditing.balls import audit_ball, shape_of
from holdfast.core import Ball, Encoder, Images, Reps
from holdfast.core.divergence import read_divergence, require
from holdfast.core.registry import part_name
from holdfast.numerics.bounds.backward import Region
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.runtime.checked import check_arguments
from holdfast.runtime.errors import BadValue, Missing, NotFinite, Unsupported
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import public
from holdfast.sources.data import ImageSet, open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage.filesystem import Folder, local_folder
from holdfast.storage.outputs import make_folder, write_file, write_text
from holdfast.storage.vnnlib import Query, write_vnnlib
from holdfast.workflows.exchange.onnx_file import write_onnx
from holdfast.workflows.exchange.questions import Question, about_classes, about_pairs

BATCH = 64
"""Images per encoder pass."""


@dataclass(frozen=True)
class Instance:
    """A question that was written.

    Attributes:
        image: id of the image.
        onnx: the file of the network, in the folder.
        vnnlib: the file of the query.
        margin: how far the clean image is from unsafe; at 0 or below the answer is "sat", whatever the ball.
    """

    image: str
    onnx: str
    vnnlib: str
    margin: float


@check_arguments
def export_vnnlib(
    model: Encoder | str,
    data: Any,
    *,
    out: str | os.PathLike[str],
    eps: float | str | None = None,
    norm: str = "linf",
    images: int = 10,
    image: Sequence[int] = (),
    negatives: int = 9,
    divergence: str = "cosine",
    head: str | os.PathLike[str] | None = None,
    label: bool = False,
    seconds: float = 300.0,
    seed: int = 0,
    listener: Listener | None = None,
) -> list[Instance]:
    """Write what is asked about images in a ball for other verifiers: ONNX and VNN-LIB files, and instances.csv.

    For each image: is there an x' in its ball whose f(x') is as near to f(x⁻) as to f(x), for one of the negatives
    x⁻? They are the pairs of `instance_accuracy` in an audit of as many images with the same seed and as many
    negatives. The network's outputs are the margins, unsafe at 0 and below. With a head: is there an x' of another
    class? The outputs are the logits.

    Networks take pixels of [0, 1], [1, C, H, W], and compute in float32, the rows of the last layer rounded to it.
    Boxes are rounded outward: they hold the ball to the last bit of float64.

    Args:
        model: the encoder, or its spec.
        data: images, see `holdfast.audit`.
        out: folder for the files.
        eps: radius in pixels of a [0, 1] image, 0.05 or "4/255"; what is usual for such images where None.
        norm: of the ball: "linf", or one of your own whose ball is a box.
        images: how many images there are to draw negatives from; each is asked about where `image` names none.
        image: numbers of those to ask about, in the order of an audit, from 0.
        negatives: how many other images each is compared with, drawn by the seed.
        divergence: "cosine" or "l2", what "nearer" means.
        head: file of a linear head (.safetensors, .onnx), see the probe `trained`: ask about classes instead.
        label: with a head, another class than the image's label; else than the head gives the clean image.
        seconds: limit for a verifier at each question, in instances.csv.
        seed: which images, and which negatives.
        listener: told about progress.

    Returns:
        The questions, in the order of instances.csv.

    Raises:
        HoldfastError: a ball that is no box, images or a head that do not fit, an encoder that cannot be exported.
    """
    # what is asked for, opened; a wrong word is refused before anything is computed
    if label and head is None:
        raise Missing("label: expected a head, whose classes labels are; give one (--head), or leave it out")
    linear = require(read_divergence(divergence), LinearDivergence, "divergence with a linear margin")
    if not seconds > 0:
        raise BadValue(f"seconds: expected a limit above 0, got {seconds:g}; for example 300")
    listener, folder = listener or Silent(), local_folder(os.fspath(out))
    encoder = model if isinstance(model, Encoder) else open_encoder(model)
    opened = open_images(data, images=images, seed=seed)
    opened = opened.with_geometry(encoder.geometry or opened.common_geometry)
    ball = _box(audit_ball(norm, eps, lambda: shape_of(opened)))
    chosen = _choose_images(image, len(opened))
    # the questions, from the clean representations
    clean = _clean(encoder, opened, listener)
    if head is None:
        questions = about_pairs(chosen, clean, opened.ids, seed, negatives, linear)
    else:
        questions = about_classes(chosen, clean, head, opened.labels, label)
    for part in ("onnx", "vnnlib"):
        make_folder(Folder(folder), part)
    # a query for each image, and networks
    instances: list[Instance] = []
    for number, question in zip(chosen, questions, strict=True):
        listener.stage(f"writing image {number}")
        x, name = opened.batch(number, number + 1), opened.ids[number]
        onnx, vnnlib = f"onnx/{question.network}.onnx", f"vnnlib/image-{number}.vnnlib"
        if all(instance.onnx != onnx for instance in instances):
            layer = (question.weights, question.bias)
            write_file(str(folder / onnx), partial(write_onnx, encoder=encoder, layer=layer, x=x))
        query = _query(question, x, ball)
        outputs = (f"Y_{k}: {words}" for k, words in enumerate(question.outputs))
        about = [f"encoder: {encoder.name}", f"image: {name}", f"ball: {part_name(ball)} {ball.radius!r}", *outputs]
        write_vnnlib(folder / vnnlib, query, "\n".join(public(" ".join(line.split())) for line in about))
        reps = clean[number : number + 1].double()
        margin = float(query.worst(reps @ question.weights.T + question.bias))
        instances.append(Instance(name, onnx, vnnlib, margin))
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows((i.onnx, i.vnnlib, f"{seconds:g}") for i in instances)
    write_text(str(folder / "instances.csv"), table.getvalue())
    return instances


def _box(ball: Ball) -> Ball:
    """Return a ball that is a box."""
    if not ball.is_box:
        raise Unsupported(
            f"norm: expected linf, since VNN-LIB 1.0 has boxes of pixels alone and cannot say {ball.title}; the box "
            "around that ball asks about far larger changes; take --norm linf, or certify here"
        )
    return ball


def _choose_images(image: Sequence[int], available: int) -> list[int]:
    """Return the numbers of the images to ask about, each once."""
    for number in image:
        if not 0 <= number < available:
            raise BadValue(
                f"image: expected a number from 0 to {available - 1}, for there are {available} images, got {number}; "
                "choose another, or take more (--images)"
            )
    return list(dict.fromkeys(image)) or list(range(available))


@torch.no_grad()
def _clean(encoder: Encoder, images: ImageSet, listener: Listener) -> Reps:
    """Return the clean representations of all images."""
    listener.begin(encoder.name, len(images))
    reps = []
    for batch in images.batches(BATCH):
        reps.append(encoder(batch.to(encoder.device)).cpu())
        listener.advance(len(batch))
    clean = torch.cat(reps)
    if not bool(clean.isfinite().all()):
        raise NotFinite(
            f"encoder {encoder.name!r}: expected finite representations, got NaN or infinity; check its weights and "
            "its normalisation"
        )
    return clean


def _query(question: Question, x: Images, ball: Ball) -> Query:
    """Return a question about the ball around an image."""
    low, high = Region.around(ball, x, torch.tensor([ball.radius], dtype=torch.float64)).box
    return Query(low.flatten(), high.flatten(), question.unsafe)
