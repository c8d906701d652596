"""The nouns of Holdfast, one file for each. Read this folder first.

    images -> threat -> attack | certifier -> encoder -> observations -> tables -> scores -> record -> report

Every image is a tensor of pixels in [0, 1]; every epsilon, sigma and radius is in those pixel units.
"""

from typing import TYPE_CHECKING

from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.lazy import lazy

if TYPE_CHECKING:
    from holdfast.core.album import Album
    from holdfast.core.attack import Attack, Trajectory
    from holdfast.core.certificate import Bound, Certifier, Margin, Rows
    from holdfast.core.chart import Chart
    from holdfast.core.check import Check, Examination, Verdict
    from holdfast.core.classifier import Bank, Classifier, Head, LinearProbe, Probe
    from holdfast.core.encoder import Encoder, Images, Passes, Reps
    from holdfast.core.geometry import Geometry
    from holdfast.core.grade import Grade
    from holdfast.core.grid import Grid
    from holdfast.core.image_source import ImageSource
    from holdfast.core.measure import InWords, Measure, Score, Table
    from holdfast.core.method import Facts, Method
    from holdfast.core.objective import Goal, Objective
    from holdfast.core.observation import Event, Failure, Observation, Positions, Reader, Rivals, Scope, Search, Shard
    from holdfast.core.relevance import Relevance
    from holdfast.core.rng import Rng
    from holdfast.core.student import Batch, EncodedView, Look, StepResult, Student, View
    from holdfast.core.subject import Subject
    from holdfast.core.threat import Ball, Corruption, Draws, Noise, PerImage, Threat

__all__ = [
    "Album", "Attack", "Ball", "Bank", "Batch", "Bound", "Certifier", "Chart", "Check", "Classifier", "Corruption",
    "Draws", "EncodedView", "Encoder", "Event", "Examination", "Facts", "Failure", "Geometry", "Goal", "Grade",
    "Grid", "Head", "HoldfastError", "ImageSource", "Images", "InWords", "LinearProbe", "Look", "Margin", "Measure",
    "Method", "Noise", "Objective", "Observation", "Passes", "PerImage", "Positions", "Probe", "Reader", "Relevance",
    "Reps", "Rivals", "Rng", "Rows", "Scope", "Score", "Search", "Shard", "StepResult", "Student", "Subject",
    "Table", "Threat", "Trajectory", "Verdict", "View",
]  # fmt: skip

_HOMES = {
    "album": "Album", "attack": "Attack Trajectory", "certificate": "Bound Certifier Margin Rows", "chart": "Chart",
    "check": "Check Examination Verdict", "classifier": "Bank Classifier Head LinearProbe Probe",
    "encoder": "Encoder Images Passes Reps", "geometry": "Geometry", "grade": "Grade", "grid": "Grid",
    "image_source": "ImageSource", "measure": "InWords Measure Score Table", "method": "Facts Method",
    "objective": "Goal Objective",
    "observation": "Event Failure Observation Positions Reader Rivals Scope Search Shard", "relevance": "Relevance",
    "rng": "Rng",
    "student": "Batch EncodedView Look StepResult Student View", "subject": "Subject",
    "threat": "Ball Corruption Draws Noise PerImage Threat",
}  # fmt: skip
"""File -> its names, imported when they are first used: the registry is looked into without torch."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__, {name: f"{__name__}.{file}" for file, names in _HOMES.items() for name in names.split()}
    )
