"""What parts of your own are written with. The nouns that they are about are in `holdfast.core`."""

from holdfast.core.data_source import DataSource
from holdfast.core.encoder_source import EncoderSource
from holdfast.core.registry import register
from holdfast.core.source_spec import Options, finish, take
from holdfast.numerics.statistics.statistic import Mean, Median, Share, Statistic
from holdfast.parts.attacks.shared.gradient import evaluate, value_and_grad
from holdfast.parts.attacks.shared.readout import Readout, check_readouts
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.sources.data.shared.torch_dataset import TorchDataset
from holdfast.sources.encoders.shared.assemble import Preprocessing, assemble
from holdfast.sources.encoders.shared.options import read as read_options

__all__ = [
    "AttackMeasure",
    "DataSource",
    "EncoderSource",
    "Mean",
    "Median",
    "Options",
    "Preprocessing",
    "Readout",
    "Share",
    "Statistic",
    "TorchDataset",
    "assemble",
    "check_readouts",
    "evaluate",
    "finish",
    "read_options",
    "register",
    "take",
    "value_and_grad",
]  # fmt: skip
