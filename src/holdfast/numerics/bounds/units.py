"""The forms +value and -value: what the range of a value is found by."""

from collections.abc import Iterator

import torch
from torch import Tensor

from holdfast.numerics.bounds.forms import Dense, Form, Patches


def units(
    shape: tuple[int, ...], matters: Tensor | None, x: Tensor, at_once: int
) -> Iterator[tuple[Form, tuple[Tensor, ...]]]:
    """Give the forms +value and -value of the values that matter, some at a time, each time with their indices.

    A single number, of shape (), has the index of the only place on one axis.

    Values of [C, H, W] are read as patches. Where half of them matter, all channels of a position go together and
    share its windows.

    Args:
        shape: of the value that they read.
        matters: which of its values; None: all.
        x: gives precision and device.
        at_once: values at a time.

    Example:
        >>> (form, index), *more = units((2,), torch.tensor([False, True]), torch.zeros(1), 8)
        >>> form.coefs.int().tolist(), index, more
        ([[[0, 1], [0, -1]]], (tensor([1]),), [])
    """
    kind = {"dtype": x.dtype, "device": x.device}
    places = (torch.ones(shape, device=x.device) if matters is None else matters).nonzero()
    if not len(places):
        return
    # all channels of a position together: one window serves their rows
    if len(shape) == 3 and 2 * len(places) > torch.Size(shape).numel():
        channels, _, width = shape
        eye = torch.eye(channels, **kind)
        positions = torch.arange(shape[1] * width, device=x.device)
        for piece in positions.split(max(1, at_once // channels)):
            at = torch.stack([piece // width, piece % width], 1)
            # Rows +e_c and -e_c of each channel in turn, [B, L, O, C, h, w]; all positions share them
            unit = torch.stack([eye, -eye], 1).view(1, 1, 2 * channels, channels, 1, 1)
            # (channel, row, column) of the value that each pair of rows reads, position by position
            channel = torch.arange(channels, device=x.device).repeat(len(piece))
            index = (channel, *at.repeat_interleave(channels, 0).unbind(1))
            yield Patches(unit, at, (1, 1), 0, 0, (shape[0], shape[1], shape[2]), paired=True), index
    elif len(shape) == 3:
        # single values, each a window of its own; those of a channel share coefficients
        eye = torch.eye(shape[0], **kind)
        # [B, C, 2, C, 1, 1]: along L the pair of each channel, which `of` picks for each position
        unit = torch.stack([eye, -eye], 1).view(1, shape[0], 2, shape[0], 1, 1)
        inner = (shape[0], shape[1], shape[2])
        for piece in places.split(at_once):
            yield Patches(unit, piece[:, 1:], (1, 1), 0, 0, inner, of=piece[:, 0], paired=True), piece.unbind(1)
    else:
        for piece in places.split(at_once):
            # One dense row for each value: 1 at its place
            flat = torch.zeros(len(piece), *shape, **kind)
            flat[(torch.arange(len(piece)), *piece.unbind(1))] = 1
            index = piece.unbind(1) or (torch.arange(1, device=x.device),)
            # [1, 2 · values, *shape]: a form and its opposite beside each other
            yield Dense(torch.stack([flat, -flat], 1).flatten(0, 1)[None]), index
