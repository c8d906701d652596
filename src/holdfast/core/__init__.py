"""The nouns of Holdfast, one file for each. Read this folder first.

    images -> threat -> attack | certifier -> encoder -> observations -> tables -> scores -> record -> report

Every image is a tensor of pixels in [0, 1]; every epsilon, sigma and radius is in those pixel units.
"""

from typing import TYPE_CHECKING

from holdfast.runtime.errors import (
    Ambiguous,
    BadData,
    BadPlace,
    BadValue,
    Conflict,
    Failed,
    HoldfastError,
    Mismatch,
    Missing,
    NotEnough,
    NotFinite,
    UnknownName,
    Unsupported,
)
from holdfast.runtime.lazy import lazy

if TYPE_CHECKING:
    from holdfast.core.album import Album
    from holdfast.core.attack import Attack, Trajectory
    from holdfast.core.certificate import Bound, Certifier
    from holdfast.core.chart import Chart
    from holdfast.core.check import Check, Examination, Verdict
    from holdfast.core.classifier import Bank, Classifier, Head, LinearProbe, Probe
    from holdfast.core.divergence import AnyDivergence
    from holdfast.core.encoder import Encoder, Passes
    from holdfast.core.geometry import Geometry
    from holdfast.core.grid import Grid
    from holdfast.core.image_source import ImageSource
    from holdfast.core.measure import InWords, Measure
    from holdfast.core.method import Facts, Method
    from holdfast.core.objective import Goal, Objective
    from holdfast.core.observation import Event, Failure, Observation, Reader, Rivals, Scope, Search, Shard
    from holdfast.core.student import Batch, EncodedView, Look, StepResult, Student, View
    from holdfast.core.subject import Subject
    from holdfast.core.threat import Ball, Corruption, Draws, Noise, Threat
    from holdfast.numerics.bounds.margin import Margin, Rows
    from holdfast.numerics.geometry.divergence import Divergence
    from holdfast.numerics.geometry.relevance import Relevance
    from holdfast.numerics.rng import Rng
    from holdfast.numerics.shapes import Images, PerImage, Positions, Reps, Table
    from holdfast.numerics.statistics.score import Score

__all__ = [
    "Album", "Ambiguous", "AnyDivergence", "Attack", "BadData", "BadPlace", "BadValue", "Ball", "Bank", "Batch",
    "Bound", "Certifier", "Chart", "Check", "Classifier", "Conflict", "Corruption", "Divergence", "Draws",
    "EncodedView", "Encoder", "Event", "Examination", "Facts", "Failed", "Failure", "Geometry", "Goal", "Grid",
    "Head", "HoldfastError", "ImageSource", "Images", "InWords", "LinearProbe", "Look", "Margin", "Measure",
    "Method", "Mismatch", "Missing", "Noise", "NotEnough", "NotFinite", "Objective", "Observation", "Passes",
    "PerImage", "Positions", "Probe", "Reader", "Relevance", "Reps", "Rivals", "Rng", "Rows", "Scope", "Score",
    "Search", "Shard", "StepResult", "Student", "Subject", "Table", "Threat", "Trajectory", "UnknownName",
    "Unsupported", "Verdict", "View",
]  # fmt: skip

_HOMES = {
    "album": "Album", "attack": "Attack Trajectory", "certificate": "Bound Certifier", "chart": "Chart",
    "check": "Check Examination Verdict", "classifier": "Bank Classifier Head LinearProbe Probe",
    "divergence": "AnyDivergence", "encoder": "Encoder Passes", "geometry": "Geometry", "grid": "Grid",
    "image_source": "ImageSource", "measure": "InWords Measure", "method": "Facts Method",
    "objective": "Goal Objective", "observation": "Event Failure Observation Reader Rivals Scope Search Shard",
    "student": "Batch EncodedView Look StepResult Student View", "subject": "Subject",
    "threat": "Ball Corruption Draws Noise Threat",
}  # fmt: skip
"""File of this folder -> its names, imported when they are first used: the registry is looked into without torch."""

_BELOW = {
    "bounds.margin": "Margin Rows",
    "geometry.divergence": "Divergence",
    "geometry.relevance": "Relevance",
    "rng": "Rng",
    "shapes": "Images PerImage Positions Reps Table",
    "statistics.score": "Score",
}
"""File of `numerics`, which knows none of the nouns, -> those of its names that they are made of."""

# Type checkers read the imports above; at run time names come from their files when they are first used
if not TYPE_CHECKING:
    _FILES = {f"{__name__}.{file}": names for file, names in _HOMES.items()}
    _FILES |= {f"holdfast.numerics.{file}": names for file, names in _BELOW.items()}
    __getattr__, __dir__ = lazy(__name__, {name: file for file, names in _FILES.items() for name in names.split()})
