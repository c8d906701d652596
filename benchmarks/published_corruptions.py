"""Common corruptions of one image at a time, the way the published generator makes them: NumPy, SciPy, OpenCV, Pillow.

What `common_corruptions` compares with. Written from the formulas; every function takes an image with 8 bits,
[H, W, 3], random numbers and the constants of a severity, and returns levels that are yet to be clipped and cut.

The generator leaves motion blur to ImageMagick, which it hands a PNG file and asks for one. `motion_blur` does so too;
`motion_blur_in_numpy` is the same sum of shifted images without the files, and snow uses that.
"""

import io
import math
from collections.abc import Callable

import numpy as np
import PIL.Image
from scipy import ndimage

Levels = np.ndarray
Random = np.random.Generator


def gaussian_noise(x: Levels, random: Random, deviation: float) -> Levels:
    return (x / 255.0 + random.normal(0, deviation, x.shape)) * 255


def shot_noise(x: Levels, random: Random, photons: float) -> Levels:
    return random.poisson(x / 255.0 * photons) / photons * 255


def impulse_noise(x: Levels, random: Random, share: float) -> Levels:
    u = random.random(x.shape)
    return np.where(u < share / 2, 0.0, np.where(u >= 1 - share / 2, 255.0, x))


def speckle_noise(x: Levels, random: Random, deviation: float) -> Levels:
    x = x / 255.0
    return (x + x * random.normal(0, deviation, x.shape)) * 255


def _gaussian(x: Levels, deviation: float) -> Levels:
    axes = (deviation, deviation, 0)[: x.ndim]
    return ndimage.gaussian_filter(x, axes, mode="nearest", truncate=4)


def gaussian_blur(x: Levels, random: Random, deviation: float) -> Levels:
    return _gaussian(x / 255.0, deviation) * 255


def defocus_blur(x: Levels, random: Random, radius: float, deviation: float) -> Levels:
    import cv2

    half, size = (8, 3) if radius <= 8 else (int(radius), 5)
    places = np.arange(-half, half + 1)
    kernel = (places[:, None] ** 2 + places**2 <= radius**2).astype(np.float32)
    kernel = cv2.GaussianBlur(kernel / kernel.sum(), (size, size), sigmaX=deviation)
    x = x / 255.0
    return np.stack([cv2.filter2D(x[..., channel], -1, kernel) for channel in range(3)], -1) * 255


def glass_blur(x: Levels, random: Random, deviation: float, reach: float, rounds: float) -> Levels:
    x, reach = (_gaussian(x / 255.0, deviation) * 255).astype(np.uint8), int(reach)
    for _ in range(int(rounds)):
        for row in range(x.shape[0] - reach, reach, -1):
            for column in range(x.shape[1] - reach, reach, -1):
                down, right = random.integers(-reach, reach, 2)
                x[row, column] = x[row + down, column + right]
    return _gaussian(x / 255.0, deviation) * 255


def _move(x: Levels, angle: float, radius: int, deviation: float) -> Levels:
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-0.5 * (steps / deviation) ** 2).astype(np.float32)
    rows = np.ceil(steps * math.sin(math.radians(angle)) - 0.5).astype(int)
    columns = np.ceil(steps * math.cos(math.radians(angle)) - 0.5).astype(int)
    reach = 2 * radius + 1
    wide = np.pad(x.astype(np.float32), ((reach, reach), (reach, reach), (0, 0))[: x.ndim], mode="edge")
    out = np.zeros(x.shape, np.float32)
    for weight, row, column in zip(weights / weights.sum(), rows, columns, strict=True):
        out += weight * wide[reach + row :, reach + column :][: x.shape[0], : x.shape[1]]
    return out


def motion_blur_in_numpy(x: Levels, random: Random, radius: float, deviation: float) -> Levels:
    return _move(x, random.uniform(-45, 45), int(radius), deviation)


def motion_blur(x: Levels, random: Random, radius: float, deviation: float) -> Levels:
    from wand.image import Image

    file = io.BytesIO()
    PIL.Image.fromarray(x).save(file, "PNG")
    with Image(blob=file.getvalue()) as image:
        image.motion_blur(radius, deviation, random.uniform(-45, 45))
        return np.array(PIL.Image.open(io.BytesIO(image.make_blob("png"))).convert("RGB"))


def _zoom(x: Levels, factor: float) -> Levels:
    side = x.shape[0]
    kept = math.ceil(side / factor)
    top = (side - kept) // 2
    seen = np.asarray(ndimage.zoom(x[top : top + kept, top : top + kept], (factor, factor, 1)[: x.ndim], order=1))
    trim = (len(seen) - side) // 2
    return seen[trim : trim + side, trim : trim + side]


def zoom_blur(x: Levels, random: Random, end: float, step: float) -> Levels:
    x, factors = (x / 255.0).astype(np.float32), np.arange(1, end, step)
    out = x.copy()
    for factor in factors:
        out += _zoom(x, factor)
    return out / (len(factors) + 1) * 255


def snow(x: Levels, random: Random, *constants: float) -> Levels:
    mean, deviation, zoom, threshold, radius, blur, stays = constants
    flakes = _zoom(random.normal(mean, deviation, x.shape[:2]), zoom)
    flakes[flakes < threshold] = 0
    flakes = (flakes.clip(0, 1) * 255).astype(np.uint8)
    fallen = _move(flakes, random.uniform(-135, -45), int(radius), blur).round()[..., None] / 255
    image = x / 255.0
    pale = (image @ [0.299, 0.587, 0.114])[..., None] * 1.5 + 0.5
    return (stays * image + (1 - stays) * np.maximum(image, pale) + fallen + np.rot90(fallen, 2)) * 255


def fog(x: Levels, random: Random, amount: float, decay: float) -> Levels:
    side = 1 << (max(x.shape[:2]) - 1).bit_length()
    height, step, size = np.zeros((side, side)), side, 100.0
    while step >= 2:
        half = step // 2

        def noisy(total: Levels, size: float = size) -> Levels:
            return total / 4 + size * random.uniform(-size, size, total.shape)

        corners = height[::step, ::step]
        across = corners + np.roll(corners, -1, 0)
        height[half::step, half::step] = noisy(across + np.roll(across, -1, 1))
        middles = height[half::step, half::step]
        height[::step, half::step] = noisy(middles + np.roll(middles, 1, 0) + corners + np.roll(corners, -1, 1))
        height[half::step, ::step] = noisy(middles + np.roll(middles, 1, 1) + corners + np.roll(corners, -1, 0))
        step, size = half, size / decay
    clouds = (height - height.min()) / np.ptp(height)
    image = x / 255.0
    brightest = image.max()
    image = image + amount * clouds[: x.shape[0], : x.shape[1], None]
    return image * brightest / (brightest + amount) * 255


def spatter(x: Levels, random: Random, *constants: float) -> Levels:
    import cv2

    mean, deviation, blur, threshold, strength, mud = constants
    liquid = _gaussian(random.normal(mean, deviation, x.shape[:2]), blur)
    image = x / 255.0
    if mud:
        mask = _gaussian((liquid > threshold).astype(np.float32), strength)[..., None]
        mask[mask < 0.8] = 0
        return (image * (1 - mask) + mask * np.array([63, 42, 20]) / 255) * 255
    depth = (np.where(liquid < threshold, 0, liquid) * 255).astype(np.uint8)
    far = cv2.distanceTransform(255 - cv2.Canny(depth, 50, 150), cv2.DIST_L2, 5).clip(max=20)
    far = cv2.equalizeHist(cv2.blur(far, (3, 3)).astype(np.uint8))
    far = cv2.filter2D(far, cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    mask = depth * cv2.blur(far, (3, 3)).astype(np.float32)
    mask *= strength / max(mask.max(), 1)
    return (image + mask[..., None] * np.array([175, 238, 238]) / 255) * 255


def contrast(x: Levels, random: Random, factor: float) -> Levels:
    image = x / 255.0
    mean = image.mean((0, 1), keepdims=True)
    return ((image - mean) * factor + mean) * 255


def brightness(x: Levels, random: Random, shift: float) -> Levels:
    from skimage import color

    image = color.rgb2hsv(x / 255.0)
    image[..., 2] = (image[..., 2] + shift).clip(0, 1)
    return color.hsv2rgb(image) * 255


def saturate(x: Levels, random: Random, factor: float, offset: float) -> Levels:
    from skimage import color

    image = color.rgb2hsv(x / 255.0)
    image[..., 1] = (image[..., 1] * factor + offset).clip(0, 1)
    return color.hsv2rgb(image) * 255


def pixelate(x: Levels, random: Random, share: float) -> Levels:
    picture = PIL.Image.fromarray(x)
    small = picture.resize((int(x.shape[1] * share), int(x.shape[0] * share)), PIL.Image.Resampling.BOX)
    return np.array(small.resize(picture.size, PIL.Image.Resampling.BOX))


def jpeg_compression(x: Levels, random: Random, quality: float) -> Levels:
    file = io.BytesIO()
    PIL.Image.fromarray(x).save(file, "JPEG", quality=int(quality))
    return np.array(PIL.Image.open(file))


def elastic_transform(x: Levels, random: Random, size: float, blur: float, affine: float) -> Levels:
    import cv2

    image, (height, width) = (x / 255.0).astype(np.float32), x.shape[:2]
    side = min(height, width)
    square = side // 3
    corners = np.array([[1, 1], [1, -1], [-1, -1]], np.float32) * square + [width // 2, height // 2]
    moved = (corners + random.uniform(-affine * side, affine * side, (3, 2))).astype(np.float32)
    turn = cv2.getAffineTransform(corners.astype(np.float32), moved)
    image = cv2.warpAffine(image, turn, (width, height), borderMode=cv2.BORDER_REFLECT_101)
    rows, columns = np.mgrid[:height, :width]
    fields = [
        ndimage.gaussian_filter(random.uniform(-1, 1, (height, width)), blur * side, mode="reflect", truncate=3)
        for _ in range(2)
    ]
    moved = [grid + size * side * field for grid, field in zip((rows, columns), fields, strict=True)]
    places = [np.repeat(place[..., None], 3, 2) for place in moved]
    places.append(np.broadcast_to(np.arange(3), image.shape))
    return ndimage.map_coordinates(image, places, order=1, mode="reflect") * 255


FUNCTIONS: dict[str, Callable[..., Levels]] = {
    function.__name__: function
    for function in (
        gaussian_blur, defocus_blur, motion_blur, zoom_blur, glass_blur, elastic_transform, motion_blur_in_numpy,
        gaussian_noise, shot_noise, impulse_noise, speckle_noise, snow, fog, spatter, brightness, contrast, saturate,
        pixelate, jpeg_compression,
    )
}  # fmt: skip
"""All but frost, which needs photographs; the first six are those that a target is set for."""
