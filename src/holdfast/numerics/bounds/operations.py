"""What each operation of an exported graph is for bound propagation: one handler for each, by its name in torch."""

from holdfast.numerics.bounds.read_activations import ActivationHandlers
from holdfast.numerics.bounds.read_attention import AttentionHandlers
from holdfast.numerics.bounds.read_extremes import ExtremeHandlers
from holdfast.numerics.bounds.read_normalisation import NormalisationHandlers
from holdfast.numerics.bounds.read_shapes import ShapeHandlers


# `super().read_other` goes from left to right, so that the lists of ShapeHandlers are the last resort
class Operations(ActivationHandlers, ExtremeHandlers, NormalisationHandlers, AttentionHandlers, ShapeHandlers):
    """All handlers: `_op_NAME` maps a graph node's arguments, values as their numbers, to the number of a new value."""
