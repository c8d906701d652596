"""Do random resizing and JPEG in front of an encoder help, or do they only stop naive attacks?

python examples/purifiers.py                     # an encoder of digits, two minutes
python examples/purifiers.py --encoder file:resnet.safetensors --data cifar10.npz --eps 2/255 --images 200
"""

import argparse
import io
import random
import sys

import numpy as np
import PIL.Image
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import holdfast
from holdfast.core import Encoder
from holdfast.sources.encoders import open_encoder


class Resized(nn.Module):
    """Scales each image to a random side between `least` and all of it, and pads it at random.

    Source: Xie et al. (2018), "Mitigating adversarial effects through randomization".
    """

    def __init__(self, least: float = 0.8):
        super().__init__()
        self.least = least

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, C, side, side] to the same shape."""
        side = x.shape[-1]
        small = random.randint(round(self.least * side), side)
        top, left = random.randint(0, side - small), random.randint(0, side - small)
        x = F.interpolate(x, size=small, mode="bilinear", antialias=True)
        return F.pad(x, (left, side - small - left, top, side - small - top))


class Jpeg(nn.Module):
    """Saves images as JPEG files of a quality and reads them again: nothing that torch has a gradient of."""

    def __init__(self, quality: int = 50):
        super().__init__()
        self.quality = quality

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, C, H, W] to the same shape."""
        return torch.stack([self._saved(image) for image in x]).to(x)

    def _saved(self, image: Tensor) -> Tensor:
        levels, file = image.clamp(0, 1).mul(255).round().byte().permute(1, 2, 0).cpu().numpy(), io.BytesIO()
        PIL.Image.fromarray(levels.squeeze(-1) if levels.shape[-1] == 1 else levels).save(
            file, "JPEG", quality=self.quality
        )
        read = torch.from_numpy(np.array(PIL.Image.open(file))).float() / 255
        return read[None] if read.ndim == 2 else read.permute(2, 0, 1)


def defended(spec: str, defence: nn.Module | None, **options: object) -> Encoder:
    """Return an encoder with a defence in front of it, which sees pixels."""
    encoder = open_encoder(spec)
    network = nn.Sequential()
    network.add_module("purify", defence or nn.Identity())
    network.add_module("normalise", encoder.normalisation)
    network.add_module("encode", encoder.module)
    return Encoder(network, mean=0, std=1, geometry=encoder.geometry, **options)  # pyright: ignore[reportArgumentType]


def main(words: list[str] | None = None) -> int:
    """Print how far both attacks move representations, in units of the usual distance between two images."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="zoo:digits-simclr", help="the encoder behind the defences")
    parser.add_argument("--data", default="digits", help="the images")
    parser.add_argument("--eps", default="0.05", help="ε in pixels of a [0, 1] image, in ℓ∞")
    parser.add_argument("--images", type=int, default=200, help="how many images there are")
    parser.add_argument("--attacked", type=int, default=32, help="how many of them are attacked")
    parser.add_argument("--steps", type=int, default=20, help="of both attacks")
    parser.add_argument("--draws", type=int, default=8, help="of which a randomised encoder is the mean")
    parser.add_argument("--out", default=None, help="run folder for the record and the report")
    asked = parser.parse_args(words)

    encoders = {
        "no defence": defended(asked.encoder, None),
        "random resizing": defended(asked.encoder, Resized(), draws=asked.draws),
        "JPEG 50": defended(asked.encoder, Jpeg(), straight_through=["purify"]),
    }
    measure = f"naive_overstatement[attack.steps={asked.steps}]"
    record = holdfast.audit(
        encoders,
        asked.data,
        measures=measure,
        profile="randomised",
        eps=asked.eps,
        images=asked.images,
        attacked=asked.attacked,
        out=asked.out,
    )
    for name in record.encoders:
        print(name)
        for title, score in record.scores("naive_overstatement", name).items():
            interval = "" if score.low is None else f" [{score.low:.3f}, {score.high:.3f}]"
            print(f"  {title}: {score.value:.3f}{interval}")
    print(
        "A defence helps as far as the adaptive attack is weaker than without it; the rest is what a naive one misses."
    )
    return len(record.failures)


if __name__ == "__main__":
    sys.exit(main())
