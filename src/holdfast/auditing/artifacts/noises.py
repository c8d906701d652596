"""Learned noises, made fit for other uses and for the report: files, maps of draws, pictures; no encoder pass."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.auditing.artifacts.noise_draws import DRAWS, Disturbed, NoiseDraws, block, look, shrunk
from holdfast.auditing.artifacts.pictures import write_png
from holdfast.auditing.session import Session
from holdfast.core import HoldfastError, Observation, Reps, Rng, registry
from holdfast.numerics.geometry.projection import Plane, axes, neighbourhoods, plane
from holdfast.parts.learners.shared.groups import centres
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.worst_noise import WorstNoise
from holdfast.parts.threats.mixture import save
from holdfast.parts.threats.shared.generator import Generator, nearest
from holdfast.parts.threats.shared.learned import LearnedNoise, unpack
from holdfast.storage.run_folder import Store, StoreError

IMAGES = 100
"""Images, the first that are attacked, whose draws are looked at."""
SAMPLES, SHOWN = 6, 2
"""Images that are shown, and draws of each."""
AXES = 32
"""Principal components of the latent draws on which the means are given."""
PICTURE = 64
"""Largest side of a picture, in pixels."""


def write_noises(
    store: Store, subject: Session, slug: str, readers: Mapping[Observation, tuple[str, ...]]
) -> list[dict[str, Any]]:
    """Write every noise that was learned for an encoder, with what the report draws; return the record's entries.

    A noise that cannot be drawn for these images keeps its file; its entry says why there are no pictures.

    Args:
        store: where files go, below noises/.
        subject: the encoder, after its observations.
        slug: the encoder's name in files.
        readers: the names of the measures that read each observation.

    Raises:
        StoreError: files that cannot be written.
    """
    learned = [o for o in subject.costs if isinstance(o, WorstNoise)]
    return [
        _entry(store, subject, f"noises/{slug}/{number}", observation, readers.get(observation, ()))
        for number, observation in enumerate(learned)
    ]


def _entry(
    store: Store, subject: Session, name: str, observation: WorstNoise, readers: tuple[str, ...]
) -> dict[str, Any]:
    seen = subject.read(observation)
    entry = {
        "title": observation.title,
        "structure": observation.learner.structure,
        "failure": observation.failure.title,
        "ball": registry.spec(observation.ball),
        "measures": list(readers),
        "file": None,
        "training": {key: _short(seen[key]) for key in ("chance", "entropy")},
        "learned_on": int(seen["learned_on"]),
    }
    try:
        noise = unpack(seen)
        store.write(f"{name}.safetensors", lambda path: save(noise, path))
        entry["file"] = f"{name}.safetensors"
        return entry | _shown(store, subject, name, observation, noise)
    except StoreError:
        raise
    except HoldfastError as error:
        return entry | {"problem": str(error)}


def _shown(store: Store, subject: Session, name: str, observation: WorstNoise, noise: LearnedNoise) -> dict[str, Any]:
    """Write tables and pictures of draws; return what the entry says of them."""
    reps = subject.read(Clean())["reps"][: min(IMAGES, subject.attacked)]
    labels = subject.labels[: len(reps)] if observation.needs_labels and subject.labels is not None else None
    grouped, groups = _groups(subject, noise.generator, reps, labels, observation.learner.clusters)
    names, codes = groups.unique(return_inverse=True)
    rng = Rng(subject.seed, ids=tuple(subject.ids[: len(reps)])).child("pictures of noise")
    disturbed = Disturbed(noise, reps, labels, rng)
    drawn = look(disturbed)
    flat = plane(drawn.perturbation)
    by_group = [drawn.weights[codes == code].mean(0) for code in range(len(names))]
    tables = {
        "draws": ([image for image in rng.ids for _ in range(DRAWS)], _draws(drawn, flat, codes, rng)),
        "means": _matrix("axis", drawn.means @ axes(drawn.latent, AXES).T),
        "covariance": _matrix("latent", drawn.covariance),
    }
    for key, (ids, columns) in tables.items():
        store.write_table(f"{name}/{key}.parquet", ids, columns)
    amplified, pictures = _pictures(store, subject, name, disturbed, codes)
    return {
        "images": len(reps),
        "grouped": grouped,
        "groups": [f"{grouped} {number}" for number in names.tolist()],
        "table": f"{name}/draws.parquet",
        "cells": drawn.coarse.shape[1],
        "origin": flat.origin.tolist(),
        "explained": _short(flat.explained),
        "weights": {
            "mean": _short(drawn.weights.mean(0)),
            "groups": [_short(weights) for weights in by_group] if "groups" in noise.generator.asks else [],
        },
        "means": {"table": f"{name}/means.parquet", "size": len(tables["means"][1])},
        "covariance": {"table": f"{name}/covariance.parquet", "size": len(drawn.covariance), "block": block(noise)},
        "amplified": amplified,
        "pictures": pictures,
    }


def _short(values: Float[Tensor, "values"]) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]


def _groups(
    subject: Session, generator: Generator, reps: Reps, labels: Int[Tensor, "images"] | None, clusters: int
) -> tuple[str, Int[Tensor, "images"]]:
    """Return what groups are and the group of each image: the noise's own, else labels that are read, else clusters."""
    if "groups" in generator.asks and generator.design.grouping == "clusters":
        known = generator.group(reps, None)
        assert known is not None  # it asks for groups
        return "cluster", known
    if labels is not None:
        return "label", labels
    clean = subject.read(Clean())["reps"]
    middle = centres(clean, min(clusters, len(clean.unique(dim=0))), subject.seed)
    return "cluster", nearest(reps, middle)


def _matrix(name: str, rows: Float[Tensor, "rows columns"]) -> tuple[list[str], dict[str, Tensor]]:
    return [str(row) for row in range(len(rows))], {f"{name}_{i:02d}": column for i, column in enumerate(rows.T)}


def _draws(drawn: NoiseDraws, flat: Plane, codes: Int[Tensor, "images"], rng: Rng) -> dict[str, Tensor]:
    """Return a row per draw: its group, where it lies on two maps (NaN: nowhere), what it does to coarse pixels."""
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
    store: Store, subject: Session, name: str, disturbed: Disturbed, codes: Int[Tensor, "images"]
) -> tuple[float, list[dict[str, Any]]]:
    """Write pictures of a few draws; return by how much differences are amplified, and the record's entries."""
    shown = []
    for image in _one_of_each(codes.tolist())[:SAMPLES]:
        x = subject.images.batch(image, image + 1).cpu()
        moved = disturbed.push(image, x)[0, :SHOWN]
        shown.append((image, shrunk(x, PICTURE)[0], shrunk(moved, PICTURE)))
    largest = max(float((moved - x).abs().max()) for _, x, moved in shown)
    factor = float(f"{0.5 / largest:.2g}") if largest > 0 else 1.0  # the largest difference becomes white or black
    entries = []
    for image, x, moved in shown:
        begin = f"{name}/{image}"
        write_png(store, f"{begin}-clean.png", x)
        draws = []
        for number, other in enumerate(moved):
            kinds = {"disturbed": other, "difference": 0.5 + factor * (other - x)}
            for kind, pixels in kinds.items():
                write_png(store, f"{begin}-{number}-{kind}.png", pixels)
            draws.append({kind: f"{begin}-{number}-{kind}.png" for kind in kinds})
        entries.append(
            {"id": subject.ids[image], "group": int(codes[image]), "clean": f"{begin}-clean.png", "draws": draws}
        )
    return factor, entries


def _one_of_each(codes: list[int]) -> list[int]:
    """Return the images in such an order that the first ones are of different groups."""
    rank = [codes[:image].count(code) for image, code in enumerate(codes)]
    return sorted(range(len(codes)), key=lambda image: (rank[image], image))
