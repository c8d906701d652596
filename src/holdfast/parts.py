"""What parts of your own are written with. The nouns that they are about are in `holdfast.core`."""

from holdfast.attacks._gradient import climb as climb
from holdfast.attacks._gradient import look as look
from holdfast.attacks._readout import Readout as Readout
from holdfast.attacks._readout import check_readouts as check_readouts
from holdfast.measures._attack_measure import AttackMeasure as AttackMeasure
from holdfast.registry import register as register
