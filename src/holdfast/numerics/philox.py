"""Random numbers that are a function of (key, counter): whole batches of streams at once, on any device."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

# The constants of Philox4x32; those of the keys are the golden ratio and √3 - 1, in units of 2^-32
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
WORD = 0xFFFFFFFF

Words = tuple[Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."]]
"""Four words of 32 bits, in int64."""


def philox(counter: Words, key: tuple[Int[Tensor, "..."], Int[Tensor, "..."]]) -> Words:
    """Return Philox4x32-10 of counters and keys that broadcast, words of 32 bits each: the same bits on every device.

    Integer products wrap modulo 2^64, of which both halves are read, so signs do not matter.

    Source: Salmon et al. (2011), "Parallel random numbers: as easy as 1, 2, 3".

    Example:
        >>> zero = torch.zeros((), dtype=torch.int64)
        >>> [f"{int(word):08x}" for word in philox((zero, zero, zero, zero), (zero, zero))]
        ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        # Words become the high half of a product, mixed with a word and the key, and its low half. Shifting a
        # negative number brings ones in, which the mask takes away.
        a, b, c, d = ((second >> 32) & WORD) ^ b ^ k0, second & WORD, ((first >> 32) & WORD) ^ d ^ k1, first & WORD
        # Every round has a key of its own
        k0, k1 = (k0 + WEYL[0]) & WORD, (k1 + WEYL[1]) & WORD
    return a, b, c, d


def normal(keys: Int[Tensor, "streams"], count: int) -> Float[Tensor, "streams count"]:
    """Return the first `count` standard normal numbers, in float32, of the streams that some 64-bit keys name.

    By Box and Muller, √(-2 log u) (cos 2πv, sin 2πv), with u from 2^-32 to 1: |z| is at most 6.7, the mass beyond is
    3e-11. Integers are the same on every device; logarithm, cosine and sine may differ there in their last digit.

    Args:
        keys: one for each stream, on the device where the numbers are needed.
        count: numbers of each.

    Example:
        >>> normal(torch.tensor([7, 8]), 3).shape
        torch.Size([2, 3])
    """
    # Four numbers from each block; the counter is the number of the block
    blocks = torch.arange(-(-count // 4), device=keys.device)
    zero = torch.zeros_like(blocks)
    # [streams, 1] against [blocks]
    key = (keys & WORD)[:, None], ((keys >> 32) & WORD)[:, None]
    words = philox((blocks, zero, zero, zero), key)
    pairs = []
    for radial, angular in (words[:2], words[2:]):
        # Never 0, whose logarithm is infinite
        u = (radial + 1).to(torch.float32) * 2.0**-32
        # 24 bits are what float32 holds exactly
        v = (angular >> 8).to(torch.float32) * (2 * math.pi * 2.0**-24)
        r = (-2 * u.log()).sqrt()
        pairs += [r * v.cos(), r * v.sin()]
    return torch.stack(pairs, -1).flatten(1)[:, :count]
