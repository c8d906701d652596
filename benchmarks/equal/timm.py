"""Evaluation transforms of timm's models, a configuration each, against Holdfast's geometry, mean and std."""

from collections.abc import Iterator

from benchmarks.equal.family import Case, Family
from benchmarks.equal.preprocessings import LIMIT, UNIT, case
from holdfast.runtime.torchvision_guard import guard_torchvision


def cases() -> Iterator[Case]:
    """Yield a comparison for each different configuration of weights."""
    guard_torchvision()
    import timm
    from timm.data.config import resolve_data_config

    from holdfast.sources.encoders.timm import original, preprocessing

    seen: set[str] = set()
    for name in timm.list_pretrained():
        weights = timm.get_pretrained_cfg(name)
        config = resolve_data_config({}, pretrained_cfg=weights.to_dict() if weights else None)
        if (text := repr(sorted(config.items()))) not in seen:
            seen.add(text)
            yield case(name, original(config), lambda config=config: preprocessing(config))


FAMILY = Family(
    "Preprocessings of timm",
    "the geometry, mean and std of `timm:`",
    "`timm.data.create_transform` of every different data configuration among its pretrained weights",
    UNIT,
    LIMIT,
    ("timm", "torchvision", "pillow"),
    cases,
)
