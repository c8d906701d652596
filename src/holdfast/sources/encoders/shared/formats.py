"""How published checkpoints name their tensors: data, a row for each format.

Names are as they are once what wraps a network and the words before it are taken away, see `naming.py`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from holdfast.sources.encoders.shared.heads import within


@dataclass(frozen=True)
class Format:
    """Where a checkpoint keeps an encoder and its heads.

    Attributes:
        name: who writes it.
        encoder: how names of the encoder's tensors begin.
        marks: how some name must begin besides, where `encoder` alone could be several formats.
        projection: how names of the projection head begin; "": it stands where the network has its classifier.
        prediction: how names of the head behind the projection begin; "": there is none.
        activation: between the layers of the heads.
        built_with: model -> arguments that the authors' network has and the library's of that name has not.
        renamed: (regular expression, replacement), for encoders whose layers have names of their own.
    """

    name: str
    encoder: str
    marks: tuple[str, ...] = ()
    projection: str = ""
    prediction: str = ""
    activation: Literal["relu", "gelu"] = "relu"
    built_with: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    renamed: tuple[tuple[str, str], ...] = ()

    def encoder_of(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the encoder by the names of its network; none where a mark is missing."""
        # Every mark must be there: "encoder." alone begins names of many
        if not all(any(name.startswith(mark) for name in state) for mark in self.marks):
            return {}
        inside = within(state, self.encoder)
        # In order: a later pattern may be of what an earlier one wrote
        for pattern, name in self.renamed:
            inside = {re.sub(pattern, name, key): value for key, value in inside.items()}
        return inside


PLAIN = Format("the network's own names", "")

# Names of SimCLRv2-Pytorch -> torchvision's ResNet
_SIMCLR = (
    (r"^net\.0\.0\.", "conv1."),
    (r"^net\.0\.1\.0\.", "bn1."),
    (r"^net\.(\d)\.blocks\.(\d+)\.projection\.shortcut\.", r"layer\1.\2.downsample.0."),
    (r"^net\.(\d)\.blocks\.(\d+)\.projection\.bn\.0\.", r"layer\1.\2.downsample.1."),
    (r"^net\.(\d)\.blocks\.(\d+)\.net\.0\.", r"layer\1.\2.conv1."),
    (r"^net\.(\d)\.blocks\.(\d+)\.net\.1\.0\.", r"layer\1.\2.bn1."),
    (r"^net\.(\d)\.blocks\.(\d+)\.net\.2\.", r"layer\1.\2.conv2."),
    (r"^net\.(\d)\.blocks\.(\d+)\.net\.3\.0\.", r"layer\1.\2.bn2."),
    (r"^net\.(\d)\.blocks\.(\d+)\.net\.4\.", r"layer\1.\2.conv3."),
    (r"^net\.(\d)\.blocks\.(\d+)\.net\.5\.0\.", r"layer\1.\2.bn3."),
)

# torch has named the parts of a weight norm anew; both directions are rows below
_NORMS = (("weight_g$", "parametrizations.weight.original0"), ("weight_v$", "parametrizations.weight.original1"))

FORMATS = (
    Format("SwAV, DeepCluster v2", "", marks=("prototypes",), projection="projection_head."),
    Format("MoCo v1, v2", "encoder_q."),
    Format(
        "MoCo v3",
        "base_encoder.",
        prediction="predictor.",
        built_with={"vit_small_patch16_224": {"num_heads": 12}},  # heads of 32 numbers; timm's six have 64
    ),
    Format("PixPro", "encoder.", marks=("encoder_k.",)),
    Format("SimSiam", "encoder.", marks=("predictor.",), prediction="predictor."),
    Format("Barlow Twins", "backbone.", marks=("projector.",), projection="projector."),
    Format("DINO", "teacher.backbone.", projection="teacher.head.mlp.", activation="gelu"),
    Format("DINO, student alone", "student.backbone.", projection="student.head.mlp.", activation="gelu"),
    Format("SimCLR v2 in PyTorch", "resnet.", projection="head.layers.", renamed=_SIMCLR),
    Format("VISSL", "classy_state_dict.base_model.model.trunk._feature_blocks."),
    Format("VISSL, trunk alone", "_feature_blocks."),
    Format("robustness", "model.", marks=("attacker.",)),
    Format("NPPR", "backbone.", marks=("mean", "std")),
    PLAIN,
    Format("old weight norm", "", renamed=_NORMS),
    Format("new weight norm", "", renamed=tuple((new.replace(".", r"\.") + "$", old[:-1]) for old, new in _NORMS)),
    Format("older DenseNet", "", renamed=((r"(denselayer\d+)\.(norm|relu|conv)\.(\d)\.", r"\1.\2\3."),)),
)
"""Every format, the special before the general: the first of those that cover most of a network's names is taken.

Sources: the public code of each method. MoCo: He et al. 2020, Chen et al. 2020 and 2021; PixPro: Xie et al. 2021;
SimSiam: Chen and He 2021; Barlow Twins: Zbontar et al. 2021; DINO: Caron et al. 2021; SwAV: Caron et al. 2020;
SimCLR v2: Chen et al. 2020, by the names of SimCLRv2-Pytorch; VISSL: Goyal et al. 2021; robustness: Engstrom et al.
2019; NPPR: Wang et al. 2025, whose classifiers carry their normalisation.
"""
