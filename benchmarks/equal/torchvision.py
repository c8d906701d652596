"""Presets of torchvision's weights against Holdfast's geometry, mean and std."""

from collections.abc import Iterator

from benchmarks.equal.family import Case, Family
from benchmarks.equal.preprocessings import LIMIT, UNIT, case
from holdfast.runtime.torchvision_guard import guard_torchvision


def cases() -> Iterator[Case]:
    """Yield a comparison for each different preset of weights."""
    guard_torchvision()
    from torchvision import models

    from holdfast.sources.encoders.torchvision import original, preprocessing

    seen: set[str] = set()
    for name in models.list_models(module=models):
        for weights in models.get_model_weights(name):
            preset = weights.transforms()
            if repr(preset) not in seen:
                seen.add(repr(preset))
                yield case(str(weights), original(preset), lambda preset=preset: preprocessing(preset, "its weights"))


FAMILY = Family(
    "Preprocessings of torchvision",
    "the geometry, mean and std of `torchvision:`",
    "`weights.transforms()` of every different preset among the weights of its classifiers",
    UNIT,
    LIMIT,
    ("torchvision", "pillow"),
    cases,
)
