"""The kNN probe of lightly: the weighted vote of the nearest of a bank."""

import torch
from torch import Tensor

from benchmarks.libraries.work import Work
from holdfast.parts.probes.knn import Knn

BANK, QUERIES, DIM, CLASSES, K, TEMPERATURE = 20_000, 2000, 256, 100, 200, 0.1


def lightly() -> Work:
    """Return the classes that the vote gives to some images."""
    from lightly.utils.benchmarking.knn import knn_predict

    draw = torch.Generator().manual_seed(0)
    centres, labels = torch.randn(CLASSES, DIM, generator=draw), torch.arange(BANK) % CLASSES
    bank = centres[labels] + 3 * torch.randn(BANK, DIM, generator=draw)
    queries = centres[torch.arange(QUERIES) % CLASSES] + 3 * torch.randn(QUERIES, DIM, generator=draw)

    def ours() -> Tensor:
        return Knn(K, TEMPERATURE).fit(bank, labels).scores(queries).argmax(1)

    def theirs() -> Tensor:
        near, far = torch.nn.functional.normalize(queries), torch.nn.functional.normalize(bank).T
        return knn_predict(near, far, labels, CLASSES, K, TEMPERATURE)[:, 0]

    what = f"kNN probe, {QUERIES:,} of {BANK:,} x {DIM}, k {K}"
    far = "share of images that get another class"
    return Work("lightly", what, ours, theirs, lambda a, b: float((a != b).double().mean()), far, "", 0.001)


WORKS = {"lightly, kNN": lightly}
