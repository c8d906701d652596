"""How many images an encoder passes at a time, unless a plan says so: by the size of an image, and the device."""

import math


def batch_size_for(shape: tuple[int, int, int], device: str) -> int:
    """Return a batch size that keeps an encoder busy without losing much to a kill: a power of two, 8 to 1,024.

    About 2^18 pixel values per pass on a CPU (512 digits, 64 CIFAR images, 8 at 224 x 224), 2^24 on an accelerator;
    where that is too much for the device's memory, passes are halved.
    """
    values = 2**18 if device == "cpu" else 2**24
    most = 512 if device == "cpu" else 1024
    fits = max(1, values // math.prod(shape))
    return max(8, min(most, 2 ** (fits.bit_length() - 1)))
