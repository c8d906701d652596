"""The worst noise of a ball for one encoder, learned on other images than those it is judged by."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Album, HoldfastError, Noise, Shard
from holdfast.core.randomness import searching
from holdfast.core.registry import part_name, spec
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.observations.shared.learning import Learning
from holdfast.parts.observations.shared.noise_pictures import short, show_noise
from holdfast.parts.threats.mixture import save
from holdfast.parts.threats.shared.learned import pack, unpack
from holdfast.runtime.errors import Missing
from holdfast.storage.run_folder import StoreError


@dataclass(frozen=True)
class WorstNoise(Learning):
    """A mixture that makes as many draws fail as it can, as the tensors of `pack`, and how it came about.

    `chance` and `entropy` [epochs]: the share of draws that do not fail and the entropy ratio of the mixture's weights,
    epoch by epoch; `learned_on` [1], how many images. What is learned here is judged on other images, see
    `count_held_out`.

    Attributes:
        learner: how it is learned.
        ball: where its draws lie.
        failure: what it seeks.

    Source: Wang et al. (2025), section 4.
    """

    learner: WorstMixture = WorstMixture()

    @property
    @override
    def title(self) -> str:
        place = self.ball.title
        return f"worst noise learned, {self.learner.structure}, {place}: {self.failure.title}"

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Learn.

        Raises:
            HoldfastError: what the learner raises: too few images, or representations that are not finite.
        """
        assert shard.clean is not None  # clean representations are always observed first
        clean = shard.clean[shard.positions].to(shard.x.device)
        labels = None if shard.labels is None else shard.labels[shard.positions]
        rng = shard.rng.child("worst noise")
        event = self.failure.bind(shard)
        # Of a randomised encoder the search draws numbers that none of its judges draws
        with searching(rng):
            learned = self.learner.learn(shard.encoder, shard.x, clean, event, labels, self.ball, rng)
        history = {"chance": learned.chance, "entropy": learned.entropy}
        return {**pack(learned.noise), **history, "learned_on": torch.tensor([learned.images])}

    @property
    def shows(self) -> Literal["noises"]:
        """The noise."""
        return "noises"

    def pictures(self, results: Mapping[str, Tensor], album: Album) -> list[dict[str, Any]]:
        """Leave the noise as a file, and what the report draws of it.

        A noise that cannot be drawn for these images keeps its file; its entry says why there are no pictures.
        """
        name = f"noises/{album.slug}/{album.number}"
        entry = {
            "title": self.title,
            "structure": self.learner.structure,
            "failure": self.failure.title,
            "ball": spec(self.ball),
            "measures": list(album.readers),
            "file": None,
            "training": {key: short(results[key]) for key in ("chance", "entropy")},
            "learned_on": int(results["learned_on"]),
        }
        try:
            # The file first, so that its name is in the entry even where pictures cannot be drawn
            noise = unpack(results)
            album.files.write(f"{name}.safetensors", lambda path: save(noise, path))
            entry["file"] = f"{name}.safetensors"
            return [entry | show_noise(noise, self.needs_labels, self.learner.clusters, album, name)]
        # A disk that cannot be written is no fault of the noise
        except StoreError:
            raise
        except HoldfastError as error:
            return [entry | {"problem": str(error)}]

    def read_from(self, shard: Shard) -> Noise:
        """Return the noise that was learned before."""
        if shard.read is None:
            raise Missing(f"{part_name(self)} must be observed before what draws from it")
        return unpack(shard.read(self))
