"""Counter-based random numbers: the published bits, the law, and nothing shared between streams."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from holdfast.core import Rng
from holdfast.numerics.philox import normal, philox

KNOWN = [  # counter, key, result: Random123's kat_vectors for philox4x32 with 10 rounds
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> list[torch.Tensor]:
    return [torch.tensor([int(word, 16)]) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN)
def test_the_published_bits(counter: str, key: str, wanted: str) -> None:
    a, b, c, d = words(counter)
    k0, k1 = words(key)
    assert " ".join(f"{int(word):08x}" for word in philox((a, b, c, d), (k0, k1))) == wanted


def test_the_bits_are_those_of_numpy() -> None:
    """NumPy's Philox is the one of 64-bit words, so only our own arithmetic in exact integers is a second opinion."""

    def by_hand(counter: list[int], key: list[int]) -> list[int]:
        for _ in range(10):
            (a, b, c, d), (k0, k1) = counter, key
            first, second = a * 0xD2511F53, c * 0xCD9E8D57
            counter = [(second >> 32) ^ b ^ k0, second % 2**32, (first >> 32) ^ d ^ k1, first % 2**32]
            key = [(k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32]
        return counter

    given = np.random.default_rng(0).integers(0, 2**32, (50, 6))
    a, b, c, d, k0, k1 = torch.from_numpy(given).unbind(1)
    found = torch.stack(philox((a, b, c, d), (k0, k1)), 1)
    assert found.tolist() == [by_hand(row[:4], row[4:]) for row in given.tolist()]


KEYS = torch.tensor([0, 1, 2, 2**32, -1, -(2**63)])


def test_numbers_are_normal() -> None:
    z = normal(KEYS, 100_000).double()
    assert len(torch.unique(z[:, :100].flatten())) > 590
    for row in z:  # a fixed seed: the level says how strange a failure would be
        assert stats.kstest(row.numpy(), "norm").pvalue > 1e-3
        for moment, wanted in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
            values = row**moment
            assert abs(float(values.mean()) - wanted) < 4 * float(values.std()) / len(row) ** 0.5
    beyond = float((z.abs() > 4).double().mean())
    assert beyond == pytest.approx(2 * stats.norm.sf(4), rel=0.7)
    assert bool(z.isfinite().all())


def test_neighbouring_counters_and_keys_share_nothing() -> None:
    z = normal(KEYS, 40_000).double()
    limit = 4.5 / 40_000**0.5
    for first, second in itertools.combinations(range(len(KEYS)), 2):
        assert abs(float((z[first] * z[second]).mean())) < limit
        assert abs(float((z[first].square() * z[second].square()).mean()) - 1) < 4 * limit
    for lag in (1, 2, 3, 4, 5, 8, 32):
        assert abs(float((z[:, lag:] * z[:, :-lag]).mean())) < limit


def test_a_stream_depends_on_its_key_alone() -> None:
    together = normal(KEYS, 10)
    for row, key in zip(together, KEYS, strict=True):
        assert torch.equal(normal(key[None], 10)[0], row)
        assert torch.equal(normal(key[None], 3)[0], row[:3])


def test_streams_of_images_on_devices() -> None:
    """On a CPU the streams stay those of torch; elsewhere they are the counter-based ones, by seed, path and image."""
    rng = Rng(1, ("noise",), ("a", "b", "c"))
    assert torch.equal(rng.normal_on(torch.device("cpu"), 2, 5), rng.normal(2, 5))
    seeds = [rng.generator(image).initial_seed() for image in rng.ids]  # without a sign
    keys = torch.tensor([(seed + 2**63) % 2**64 - 2**63 for seed in seeds])
    assert torch.equal(rng._draw_philox(torch.device("cpu"), 2, 5), normal(keys, 10).view(3, 2, 5))
    assert torch.equal(rng.at(("b",))._draw_philox(torch.device("cpu"), 2, 5)[0], normal(keys, 10).view(3, 2, 5)[1])
    assert rng._draw_philox(torch.device("meta"), 2, 5).device.type == "meta"
    others = (Rng(2, ("noise",), rng.ids), rng.child("more"))
    assert not any(
        torch.equal(other._draw_philox(torch.device("cpu"), 2, 5), normal(keys, 10).view(3, 2, 5)) for other in others
    )
