"""How far a naive and an adaptive attack move digits, without and with a defence in front of an encoder."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image
import torch
from matplotlib import pyplot as plt
from torch import nn

import holdfast
from drawings import BLUE, GREY, ORANGE, save
from holdfast.core import Encoder
from holdfast.sources.encoders import open_encoder


def draw() -> None:
    """How far a naive and an adaptive attack move digits, without and with a defence in front of an encoder."""

    class Defence(nn.Module):
        def __init__(self, defend: Callable[[torch.Tensor], torch.Tensor]):
            super().__init__()
            self.defend = defend

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.defend(x)

    def jpeg(x: torch.Tensor) -> torch.Tensor:
        read = []
        for image in x[:, 0]:
            file = io.BytesIO()
            PIL.Image.fromarray(image.clamp(0, 1).mul(255).round().byte().numpy()).save(file, "JPEG", quality=50)
            read.append(torch.from_numpy(np.array(PIL.Image.open(file))))
        return torch.stack(read)[:, None].float() / 255

    def defended(defend: Callable[[torch.Tensor], torch.Tensor], **options: Any) -> Encoder:
        encoder, network = open_encoder("zoo:digits-simclr"), nn.Sequential()
        network.add_module("defence", Defence(defend))
        network.add_module("encoder", nn.Sequential(encoder.normalisation, encoder.module))
        return Encoder(network, mean=0, std=1, **options)

    encoders = {
        "no defence": defended(lambda x: x),
        "half of the pixels dropped": defended(lambda x: nn.functional.dropout(x, 0.5, training=True), draws=16),
        "noise, σ 0.3": defended(lambda x: x + 0.3 * torch.randn_like(x), draws=16),
        "JPEG, quality 50": defended(jpeg, straight_through=["defence"]),
    }
    measure = "naive_overstatement[attack.steps=20]"
    record = holdfast.audit(
        encoders, "digits", measures=measure, profile="randomised", eps=0.05, images=100, attacked=48
    )
    figure, axis = plt.subplots(figsize=(6, 2.4))
    for row, name in enumerate(encoders):
        scores = record.scores("naive_overstatement", name)
        for side, colour, shift in (("naive attack", ORANGE, -0.14), ("adaptive attack", BLUE, 0.14)):
            score = scores[side]
            axis.plot([score.low, score.high], [row + shift] * 2, color=colour)
            axis.plot(score.value, row + shift, "o", color=colour, label=side if row == 0 else None)
    axis.axvline(
        float(record.scores("naive_overstatement", "no defence")["adaptive attack"].value or 0), color=GREY, lw=0.8
    )
    axis.set_yticks(range(len(encoders)), list(encoders))
    axis.invert_yaxis()
    axis.set_xlim(0)
    axis.set_xlabel("drift / usual distance of two images")
    axis.legend(frameon=False, loc="lower right")
    save(figure, "randomised")
