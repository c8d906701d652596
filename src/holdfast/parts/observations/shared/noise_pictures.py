"""A learned noise, made fit for other uses and for the report: its file, maps of draws, pictures; no encoder pass."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Album, Reps, Rng
from holdfast.numerics.geometry.pictures import shrunk
from holdfast.numerics.geometry.projection import Plane, axes, neighbourhoods, plane
from holdfast.parts.learners.shared.groups import centres
from holdfast.parts.observations.shared.noise_draws import DRAWS, Disturbed, NoiseDraws, block, look
from holdfast.parts.threats.shared.generator import Generator, nearest
from holdfast.parts.threats.shared.learned import LearnedNoise

IMAGES = 100
"""Images, the first that are attacked, whose draws are looked at."""
SAMPLES, SHOWN = 6, 2
"""Images that are shown, and draws of each."""
AXES = 32
"""Principal components of the latent draws on which the means are given."""
PICTURE = 64
"""Largest side of a picture, in pixels."""


def show_noise(noise: LearnedNoise, labelled: bool, clusters: int, album: Album, name: str) -> dict[str, Any]:
    """Write tables and pictures of draws for tested images; return what the record says of them.

    Args:
        noise: the noise that was learned.
        labelled: whether it, or what it seeks, reads labels; images are then grouped by these.
        clusters: groups of images otherwise.
        album: the images, and where files go.
        name: with which the names of files begin.

    Raises:
        HoldfastError: a noise that cannot be drawn for these images.
    """
    # images, their groups, and draws of the noise for each
    reps = album.clean[: min(IMAGES, album.attacked)]
    labels = album.labels[: len(reps)] if labelled and album.labels is not None else None
    grouped, groups = _groups(album, noise.generator, reps, labels, clusters)
    names, codes = groups.unique(return_inverse=True)
    rng = Rng(album.seed, ids=tuple(album.ids[: len(reps)])).child("pictures of noise")
    disturbed = Disturbed(noise, reps, labels, rng)
    drawn = look(disturbed)
    # two principal components of the draws; mean weights of each group; tables of draws, means and one covariance
    flat = plane(drawn.perturbation)
    by_group = [drawn.weights[codes == code].mean(0) for code in range(len(names))]
    tables = {
        "draws": ([image for image in rng.ids for _ in range(DRAWS)], _draws(drawn, flat, codes, rng)),
        # μ on the axes of the draws: [K, latent] @ [latent, axes]
        "means": _matrix("axis", drawn.means @ axes(drawn.latent, AXES).T),
        "covariance": _matrix("latent", drawn.covariance),
    }
    for key, (ids, columns) in tables.items():
        album.files.write_table(f"{name}/{key}.parquet", ids, columns)
    amplified, pictures = _pictures(album, name, disturbed, codes)
    return {
        "images": len(reps),
        "grouped": grouped,
        "groups": [f"{grouped} {number}" for number in names.tolist()],
        "table": f"{name}/draws.parquet",
        "cells": drawn.coarse.shape[1],
        "origin": flat.origin.tolist(),
        "explained": short(flat.explained),
        "weights": {
            "mean": short(drawn.weights.mean(0)),
            "groups": [short(weights) for weights in by_group] if "groups" in noise.generator.asks else [],
        },
        "means": {"table": f"{name}/means.parquet", "size": len(tables["means"][1])},
        "covariance": {"table": f"{name}/covariance.parquet", "size": len(drawn.covariance), "block": block(noise)},
        "amplified": amplified,
        "pictures": pictures,
    }


def short(values: Float[Tensor, "values"]) -> list[float]:
    """Return numbers as the record has them, with five digits."""
    return [float(f"{value:.5g}") for value in values.tolist()]


def _groups(
    album: Album, generator: Generator, reps: Reps, labels: Int[Tensor, "images"] | None, clusters: int
) -> tuple[str, Int[Tensor, "images"]]:
    """Return what groups are and the group of each image: the noise's own, else labels that are read, else clusters."""
    if "groups" in generator.asks and generator.design.grouping == "clusters":
        groups = generator.group(reps, None)
        assert groups is not None  # it asks for groups
        return "cluster", groups
    if labels is not None:
        return "label", labels
    # Never more clusters than there are different representations
    middle = centres(album.clean, min(clusters, len(album.clean.unique(dim=0))), album.seed)
    return "cluster", nearest(reps, middle)


def _matrix(name: str, rows: Float[Tensor, "rows columns"]) -> tuple[list[str], dict[str, Tensor]]:
    return [str(row) for row in range(len(rows))], {f"{name}_{i:02d}": column for i, column in enumerate(rows.T)}


def _draws(drawn: NoiseDraws, flat: Plane, codes: Int[Tensor, "images"], rng: Rng) -> dict[str, Tensor]:
    """Return a row per draw: its group, where it lies on two maps (NaN: nowhere), what it does to coarse pixels."""
    # t-SNE starts from a seed of its own, so that pictures do not depend on what was drawn before
    near = neighbourhoods(drawn.perturbation, rng.child("t-SNE").generator().initial_seed())
    near = torch.full_like(flat.points, torch.nan) if near is None else near
    return {
        "group": codes.repeat_interleave(DRAWS),
        "draw": torch.arange(DRAWS).repeat(len(codes)),
        **{f"pca_{axis}": place for axis, place in zip("xy", flat.points.T, strict=True)},
        **{f"tsne_{axis}": place for axis, place in zip("xy", near.T, strict=True)},
        **{f"pixel_{i:02d}": values.float() for i, values in enumerate(drawn.coarse.T)},
    }


def _pictures(
    album: Album, name: str, disturbed: Disturbed, codes: Int[Tensor, "images"]
) -> tuple[float, list[dict[str, Any]]]:
    """Write pictures of a few draws; return by how much differences are amplified, and the record's entries."""
    # a few images of different groups with their first draws
    shown = []
    for image in _one_of_each(codes.tolist())[:SAMPLES]:
        x = album.picture(image)[None]
        moved = disturbed.push(image, x)[0, :SHOWN]
        shown.append((image, shrunk(x, PICTURE)[0], shrunk(moved, PICTURE)))
    largest = max(float((moved - x).abs().max()) for _, x, moved in shown)
    factor = float(f"{0.5 / largest:.2g}") if largest > 0 else 1.0  # the largest difference becomes white or black
    # clean, disturbed, and the difference amplified around grey
    entries = []
    for image, x, moved in shown:
        begin = f"{name}/{image}"
        album.files.write_picture(f"{begin}-clean.png", x)
        draws = []
        for number, draw in enumerate(moved):
            kinds = {"disturbed": draw, "difference": 0.5 + factor * (draw - x)}
            for kind, pixels in kinds.items():
                album.files.write_picture(f"{begin}-{number}-{kind}.png", pixels)
            draws.append({kind: f"{begin}-{number}-{kind}.png" for kind in kinds})
        entries.append(
            {"id": album.ids[image], "group": int(codes[image]), "clean": f"{begin}-clean.png", "draws": draws}
        )
    return factor, entries


def _one_of_each(codes: list[int]) -> list[int]:
    """Return the images in such an order that the first ones are of different groups."""
    # How many of its group come before each image: all first ones stand before all second ones
    rank = [codes[:image].count(code) for image, code in enumerate(codes)]
    return sorted(range(len(codes)), key=lambda image: (rank[image], image))
