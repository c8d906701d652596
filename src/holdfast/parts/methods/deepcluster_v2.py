"""DeepCluster-v2: every view predicts in which cluster its image was, among all images of the epoch before."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Batch, EncodedView, Encoder, Facts, Look, Method, Reps, Rng, Student
from holdfast.parts.methods.shared.spherical_kmeans import spherical_kmeans
from holdfast.runtime.checked import Count, Positive
from holdfast.runtime.errors import BadValue, NotEnough
from holdfast.runtime.optional import optional

TOGETHER = 256
"""Images that are encoded together where all are looked at."""


@dataclass(frozen=True)
class DeepclusterV2(Method):
    """Mean over both clusterings h, views j and images of -log softmax(C_h z_j / T)_{a_h}, z = g(f(x)) / ‖g(f(x))‖.

    Before each epoch, spherical k-means of what view h = 0, 1 of every image was in the epoch before gives centroids
    C_h and clusters a_h. Before the first one all images are encoded once for this, in eval mode. Small views predict
    only.

    Attributes:
        clusters: of each clustering, at most as many as images; 3000 in the paper.
        iterations: of k-means.
        hidden: width of the projector's hidden layer.
        dim: width of the projection.
        temperature: T > 0.

    Source: Caron et al. (2020).

    Example:
        >>> encoder = Encoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), mean=0, std=1)
        >>> student = DeepclusterV2(clusters=2, hidden=8, dim=4).student(encoder, Facts(dim=3, images=8))
        >>> student.views, student.many
        (2, True)
    """

    clusters: int = 300
    iterations: Count = 10
    hidden: Count = 2048
    dim: Count = 128
    temperature: Positive = 0.1

    def __post_init__(self) -> None:
        if self.clusters < 2:
            raise BadValue(f"deepcluster_v2: expected at least 2 clusters, got {self.clusters}")

    def student(self, encoder: Encoder, facts: Facts) -> Student:
        """Return the encoder with its projector, and a memory of all images.

        Raises:
            HoldfastError: fewer images than clusters.
        """
        if facts.images < self.clusters:
            raise NotEnough(
                f"deepcluster_v2: expected at least as many images as clusters, got {facts.images} images for "
                f"{self.clusters} clusters; set fewer clusters"
            )
        return _Student(encoder, facts, self)


class _Student(Student):
    many = True

    def __init__(self, encoder: Encoder, facts: Facts, method: DeepclusterV2):
        heads = optional("lightly.models.modules.heads", "lightly", "train", "deepcluster_v2")
        super().__init__(encoder, heads.SwaVProjectionHead(facts.dim, method.hidden, method.dim))
        self._method = method
        self.memory: Tensor
        self.centroids: Tensor
        self.assigned: Tensor
        # Of both whole views: what each image was last, the centroids, and the cluster of each image
        self.register_buffer("memory", torch.zeros(2, facts.images, method.dim))
        self.register_buffer("centroids", torch.zeros(2, method.clusters, method.dim))
        self.register_buffer("assigned", torch.zeros(2, facts.images, dtype=torch.int64))

    def heads(self, rep: Reps | None, twin: Reps | None) -> tuple[Tensor | None, Tensor | None]:
        assert rep is not None
        # Of unit length, as centroids are: their product is a cosine
        z = F.normalize(self.projector(rep), dim=1)
        return z, z

    def loss(self, views: Sequence[EncodedView], batch: Batch) -> Float[Tensor, ""]:
        # Scores and labels in one order: clusterings outside, views inside, small ones too
        scores = [view.out @ centroids.T for centroids in self.centroids for view in views if view.out is not None]
        labels = [own[batch.positions] for own in self.assigned for _ in views]
        return F.cross_entropy(torch.cat(scores) / self._method.temperature, torch.cat(labels))

    @torch.no_grad()
    def remember(self, views: Sequence[EncodedView], batch: Batch) -> None:
        # The first two views are the whole ones; small ones are not remembered
        for memory, view in zip(self.memory, views, strict=False):
            assert view.out is not None
            memory[batch.positions] = view.out.to(memory.dtype)

    @torch.no_grad()
    def begin_epoch(self, epoch: int, seed: int, look: Look) -> None:
        # Nothing is remembered yet
        if epoch == 0:
            self._look_at_all(look)
        for crop, memory in enumerate(self.memory):
            # By seed and epoch, so that a training that goes on from here finds the same clusters
            generator = Rng(seed, ("clusters", str(epoch), str(crop))).generator()
            clustered = spherical_kmeans(memory, self._method.clusters, generator, self._method.iterations)
            self.centroids[crop], self.assigned[crop] = clustered

    def _look_at_all(self, look: Look) -> None:
        """Fill the memory: every process fills its own, with identical results."""
        # BatchNorm must not learn from this look, nor depend on how images are put together
        self.eval()
        for places in torch.arange(self.memory.shape[1], device=self.memory.device).split(TOGETHER):
            for memory, view in zip(self.memory, look(places), strict=False):
                memory[places] = F.normalize(self.projector(self.encoder(view)), dim=1)
        self.train()
