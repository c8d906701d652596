"""Whose statistics BatchNorm takes: of all images alike, of attacked and clean ones apart, or of nobody."""

from torch import nn

from holdfast.core import Encoder
from holdfast.encoders._copy import filled, state_of


def prepared(encoder: Encoder, kind: str) -> Encoder:
    """Return a trainable encoder whose BatchNorm layers behave as asked."""
    assert kind == "shared"
    return encoder


def released(encoder: Encoder, module: nn.Module | None = None) -> Encoder:
    """Return a frozen copy with plain BatchNorm layers again."""
    return filled(encoder, state_of(encoder))
