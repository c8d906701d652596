"""What parts of your own are written with. The nouns that they are about are in `holdfast.core`."""

from holdfast.core.encoder_source import EncoderSource as EncoderSource
from holdfast.core.registry import register as register
from holdfast.parts.attacks.shared.gradient import climb as climb
from holdfast.parts.attacks.shared.gradient import look as look
from holdfast.parts.attacks.shared.readout import Readout as Readout
from holdfast.parts.attacks.shared.readout import check_readouts as check_readouts
from holdfast.parts.measures.shared.attack_measure import AttackMeasure as AttackMeasure
from holdfast.sources.encoders.shared.assemble import Preprocessing as Preprocessing
from holdfast.sources.encoders.shared.assemble import assemble as assemble
