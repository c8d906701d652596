"""One perturbation for all images, learned on other images than those it is judged by."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Album, Chart, Shard
from holdfast.core.chart import Curves, Line, numbers
from holdfast.core.randomness import searching
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.pictures import shrunk
from holdfast.parts.learners.given import Given, save
from holdfast.parts.learners.shared.learner import LearnedPerturbation
from holdfast.parts.learners.universal import Universal
from holdfast.parts.observations.shared.learning import Learning
from holdfast.parts.observations.shared.taken import find_confusions
from holdfast.runtime.errors import Missing

SHOWN, SIDE = 6, 64
"""Images, the first that are attacked, that are shown under it; the largest side of a picture, in pixels."""


@dataclass(frozen=True)
class UniversalPerturbation(Learning):
    """One δ of a ball that makes as many images fail as it can, and how it came about.

    `delta` [C, H, W], in pixels; `held` [1], the share of the images it was learned on that stand under it; `chance`
    [epochs], that share epoch by epoch; `learned_on` [1], how many images; `target` [1], the position of the image for
    which most of those that fail are taken, -1 for none.

    Attributes:
        learner: how it is learned, or from which file it comes.
        ball: where it lies.
        failure: what it seeks.

    Source: Wang et al. (2025), appendix 7, Eq. 28: the unconditional case of adversarial robustness.
    """

    learner: Universal | Given = Universal()

    @property
    @override
    def title(self) -> str:
        return f"universal perturbation {self.learner.title}, {self.ball.title}: {self.failure.title}"

    @property
    def adaptive(self) -> bool:
        """Whether images that fail already cost less."""
        return self.learner.adaptive

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Learn.

        Raises:
            HoldfastError: what the learner raises: too few images, representations that are not finite, or a file that
                holds no perturbation for them.
        """
        assert shard.clean is not None  # clean representations are always observed first
        clean = shard.clean[shard.positions].to(shard.x.device)
        rng, event = shard.rng.child("universal perturbation"), self.failure.bind(shard)
        # Of a randomised encoder the search draws numbers that none of its judges draws
        with searching(rng):
            learned = self.learner.learn(shard.encoder, shard.x, clean, event, None, self.ball, rng)
        return {
            "delta": learned.delta.cpu(),
            "held": torch.tensor([learned.held], dtype=torch.float64),
            "chance": learned.chance,
            "learned_on": torch.tensor([learned.images]),
            "target": torch.tensor([self._target(shard, learned)]),
        }

    def _target(self, shard: Shard, learned: LearnedPerturbation) -> int:
        """Return the image for which most of the failing images that were learned from are taken; -1 for none."""
        if not len(learned.rows):
            return -1
        # The images learned from, as a shard of their own, to which the failure is bound again
        own = shard.select(learned.rows)
        values = self.failure.bind(own)(learned.reps[:, None].double(), torch.arange(len(own.x)))[:, 0]
        positions = find_confusions(self.failure, own, learned.reps, values > 0)
        positions = positions[positions >= 0]
        # The commonest; of equals the one that stands first
        return int(positions.bincount().argmax()) if len(positions) else -1

    def charts(self, results: Mapping[str, Tensor], clean: Float[Tensor, "population dim"]) -> tuple[Chart, ...]:
        """Return the share of its images that stood, epoch by epoch."""
        share = results["chance"]
        # A perturbation from a file was not learned here, and has no course
        if len(share) < 2:
            return ()
        line = Line(tuple(map(float, range(1, len(share) + 1))), numbers(share))
        curves = Curves(
            heading="Universal perturbations learned",
            how_to_read=(
                "The share of the images learned from that the perturbation leaves standing, epoch by epoch; that of "
                "the best epoch is kept. A curve that still falls at its end says that a longer search finds worse."
            ),
            title=f"{self.learner.title}, {self.ball.title}: {self.failure.title}",
            lines=(line,),
            across="epoch",
            label="images that hold",
            unit="share",
            summary=f"After the last epoch {100 * float(share[-1]):.3g} % of the images stand.",
        )
        return (curves,)

    @property
    def shows(self) -> Literal["perturbations"]:
        """The perturbation, and images under it."""
        return "perturbations"

    def pictures(self, results: Mapping[str, Tensor], album: Album) -> list[dict[str, Any]]:
        """Leave the perturbation as a file and, amplified around grey, a picture; and some attacked images under it."""
        file = f"perturbations/{album.slug}/{album.number}.safetensors"
        album.files.write(file, lambda path: save(results["delta"], self.ball, path))
        name, delta = f"pictures/{album.slug}/universal-{album.number}", results["delta"].float()
        largest = float(delta.abs().max())
        factor = float(f"{0.5 / largest:.2g}") if largest > 0 else 1.0  # the largest change becomes white or black
        album.files.write_picture(f"{name}.png", (0.5 + factor * shrunk(delta[None], SIDE)[0]).clamp(0, 1))
        shown = []
        for position in range(min(SHOWN, album.attacked)):
            x = album.picture(position)[None]
            files = {kind: f"{name}-{position}-{kind}.png" for kind in ("clean", "disturbed")}
            album.files.write_picture(files["clean"], shrunk(x, SIDE)[0])
            album.files.write_picture(
                files["disturbed"], shrunk(self.ball.around(x, self.ball.under(x, delta)), SIDE)[0]
            )
            shown.append({"id": album.ids[position]} | files)
        return [
            {
                "title": self.title,
                "measures": list(album.readers),
                "learned_on": int(results["learned_on"]),
                "amplified": factor,
                "file": file,
                "picture": f"{name}.png",
                "pictures": shown,
            }
        ]

    def read_from(self, shard: Shard) -> dict[str, Tensor]:
        """Return what was learned before, as `run` does."""
        if shard.read is None:
            raise Missing(f"{part_name(self)} must be observed before images are judged under it")
        return shard.read(self)
