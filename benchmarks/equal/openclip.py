"""Preprocessings of OpenCLIP's weights against Holdfast's geometry, mean and std."""

from collections.abc import Iterator

from benchmarks.equal.family import Case, Family
from benchmarks.equal.preprocessings import LIMIT, UNIT, case
from holdfast.runtime.torchvision_guard import guard_torchvision


def cases() -> Iterator[Case]:
    """Yield a comparison for each different configuration of weights, at the size of their model."""
    guard_torchvision()
    import open_clip
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    from holdfast.sources.encoders.openclip import original, preprocessing

    seen: set[str] = set()
    for model, tag in open_clip.list_pretrained():
        own, said = open_clip.get_model_config(model), open_clip.get_pretrained_cfg(model, tag)
        size = own["vision_cfg"]["image_size"] if own else 224
        config = merge_preprocess_dict(PreprocessCfg(size=size), said)
        if repr(config) not in seen:
            seen.add(repr(config))
            yield case(f"{model}/{tag}", original(config), lambda config=config: preprocessing(config))


FAMILY = Family(
    "Preprocessings of OpenCLIP",
    "the geometry, mean and std of `openclip:`",
    "`open_clip.transform.image_transform_v2` of every different configuration among its pretrained weights",
    UNIT,
    LIMIT,
    ("open_clip_torch", "torchvision", "pillow"),
    cases,
)
