"""Where shards end, and rounds may, in an audit in rounds."""

FEWEST = 6
"""Images of the first round: the fewest whose median has a 95 % interval."""


def cuts_of(most: int, batch_size: int) -> tuple[int, ...]:
    """Return after how many images a round can end: 6, 12, 24, … within the first batch, then each whole batch.

    Shards end there too, so that no round has to make a shard of an earlier one again.

    Example:
        >>> cuts_of(40, 16), cuts_of(4, 16)
        ((6, 12, 16, 32, 40), (4,))
    """
    doubled = (FEWEST * 2**power for power in range(batch_size.bit_length()))
    ends = {*(end for end in doubled if end < batch_size), *range(batch_size, most, batch_size)}
    even = {end // 2 * 2 for end in ends}  # images are attacked in pairs
    return (*sorted(end for end in even if FEWEST <= end < most), most)
