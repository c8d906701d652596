"""What an observation has found, represented by further groups of draws where its encoder is a mean over draws."""

import torch

from holdfast.core import Encoder, Images, Reps
from holdfast.core.randomness import GROUPS, redrawn, use_draw_group


@torch.no_grad()
def reevaluate_with_new_draws(encoder: Encoder, x: Images, name: str) -> dict[str, Reps]:
    """Return the representations of images by each further group of draws; none where nothing is drawn.

    Args:
        encoder: the encoder.
        x: the images.
        name: under which the observation has their representations by the encoder's own draws, see `redrawn`.
    """
    reps = {}
    # Group 0 are the encoder's own draws, by which the observation itself has judged
    for group in range(1, GROUPS + 1) if encoder.draws is not None else ():
        with use_draw_group(group):
            reps[redrawn(name, group)] = encoder(x).float()
    return reps
