"""Wang & Liu (2023), "RVCL": margins, CROWN with whole matrices, radii, smoothing, extreme values."""

from typing import Any

import numpy as np
from scipy import optimize, stats

Maps = list[tuple[np.ndarray, np.ndarray]]


def unit(reps: np.ndarray) -> np.ndarray:
    """ρ̃(u) = u / ||u||."""
    return reps / np.linalg.norm(reps, axis=-1, keepdims=True)


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """ρ(u, v)."""
    return (unit(a) * unit(b)).sum(-1)


def convolution(
    weights: np.ndarray, bias: np.ndarray, side: int, stride: int, padding: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a convolution as a matrix and a vector, for square images of flattened pixels."""
    outs, ins, size, _ = weights.shape
    wide = (side + 2 * padding - size) // stride + 1
    matrix = np.zeros((outs, wide, wide, ins, side, side))
    for row in range(wide):
        for column in range(wide):
            for i in range(size):
                for j in range(size):
                    y, x = row * stride + i - padding, column * stride + j - padding
                    if 0 <= y < side and 0 <= x < side:
                        matrix[:, row, column, :, y, x] += weights[:, :, i, j]
    return matrix.reshape(outs * wide**2, ins * side**2), np.repeat(bias, wide**2)


def crown(maps: Maps, rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Lemma 25: lower bounds of rows · φ_L over a box, every range inside the network by the lemma itself."""
    lines: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for layer in range(1, len(maps)):
        eye = np.eye(len(maps[layer - 1][1]))
        least = _through(maps[:layer], lines, np.vstack([eye, -eye]), low, high)
        lower, upper = least[: len(eye)], -least[len(eye) :]
        crosses = (lower < 0) & (upper > 0)
        slope = np.where(crosses, upper / np.where(crosses, upper - lower, 1), (upper > 0).astype(float))
        below = np.where(crosses, (upper > -lower).astype(float), slope)
        lines.append((below, slope, np.where(crosses, -slope * lower, 0.0)))
    return _through(maps, lines, rows, low, high)


def _through(maps: Maps, lines: list, rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    constant = np.zeros(len(rows))
    for layer in reversed(range(len(maps))):
        weights, bias = maps[layer]
        constant, rows = constant + rows @ bias, rows @ weights
        if layer:
            below, above, shift = lines[layer - 1]
            positive, negative = rows.clip(min=0), rows.clip(max=0)
            constant, rows = constant + negative @ shift, positive * below + negative * above
    return constant + rows.clip(min=0) @ low + rows.clip(max=0) @ high


def interval(maps: Maps, rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Interval arithmetic, layer by layer; the rows are one matrix with the last layer."""
    maps = [*maps[:-1], (rows @ maps[-1][0], rows @ maps[-1][1])]
    for layer, (weights, bias) in enumerate(maps):
        if layer:
            low, high = low.clip(min=0), high.clip(min=0)
        positive, negative = weights.clip(min=0), weights.clip(max=0)
        low, high = positive @ low + negative @ high + bias, positive @ high + negative @ low + bias
    return low


def minimum(maps: Maps, row: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Eq. 13 exactly: the least of a row over a box, by a mixed-integer program with a variable for each sign."""
    last, size = (row @ maps[-1][0], float(row @ maps[-1][1])), len(low)
    ends, blocks, whole = [(low, high)], [], [0] * size
    inputs = np.arange(size)
    for weights, bias in maps[:-1]:
        before = [end.clip(min=0) for end in ends[-1]] if blocks else ends[-1]
        positive, negative = weights.clip(min=0), weights.clip(max=0)
        least = positive @ before[0] + negative @ before[1] + bias
        most = positive @ before[1] + negative @ before[0] + bias
        # After the last variables come those behind this layer's ReLUs, and then their signs
        outs = np.arange(len(bias)) + len(whole)
        signs = outs + len(bias)
        whole += [0] * len(bias) + [1] * len(bias)
        ends.append((least, most))
        blocks.append((inputs, outs, signs, weights, bias))
        inputs = outs
    rules, lows, highs = [], [], []
    for (place, outs, signs, weights, bias), (least, most) in zip(blocks, ends[1:], strict=True):
        for j, out in enumerate(outs):
            line = np.zeros(len(whole))
            line[place], line[out] = -weights[j], 1.0  # y - w x
            upper = line.copy()
            upper[signs[j]] = -least[j]
            onto = np.zeros(len(whole))
            onto[out], onto[signs[j]] = 1.0, -most[j]
            # y >= z, y <= z - least (1 - sign), y <= most sign
            rules += [line, upper, onto]
            lows += [bias[j], -np.inf, -np.inf]
            highs += [np.inf, bias[j] - least[j], 0.0]
            if least[j] >= 0 or most[j] <= 0:
                rules.append(np.eye(len(whole))[signs[j]])
                lows.append(float(least[j] >= 0))
                highs.append(float(least[j] >= 0))
    least, most = np.zeros(len(whole)), np.where(whole, 1.0, np.inf)
    least[:size], most[:size] = low, high
    cost = np.zeros(len(whole))
    cost[inputs] = last[0]
    solver: Any = optimize  # whose types know single numbers alone
    found = solver.milp(
        cost,
        constraints=solver.LinearConstraint(np.array(rules), lows, highs),
        integrality=np.array(whole),
        bounds=solver.Bounds(least, most),
        options={"mip_rel_gap": 1e-9},
    )
    return float(found.fun + last[1])


def margins(own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """W_CL of Definition 4, a row for each negative."""
    return unit(own) - unit(others)


def box(x: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the ball in [0, 1]."""
    return (x - radius).clip(0, 1), (x + radius).clip(0, 1)


def radius(maps: Maps, row: np.ndarray, x: np.ndarray, tolerance: float = 1e-7) -> float:
    """Algorithm 1, CERTIFY: bisection between 0 and 1; the largest ε that was certified."""
    low, high = 0.0, 1.0
    while high - low > tolerance:
        middle = (low + high) / 2
        low, high = (middle, high) if crown(maps, row[None], *box(x, middle))[0] > 0 else (low, middle)
    return low


def smoothed_radius(noisy: np.ndarray, own: np.ndarray, others: np.ndarray, tau: float, sigma: float) -> np.ndarray:
    """Eq. 15 at every draw, its mean, and σ Φ⁻¹ of that (Eq. 17, Algorithm 2)."""
    likeness = np.array([cosine(noisy, other) for other in others])
    p = 1 / (1 + np.exp((likeness - cosine(noisy, own)) / tau))
    return sigma * stats.norm.ppf(p.mean(1))


def certified(hits: np.ndarray, draws: int, alpha: float, sigma: float) -> np.ndarray:
    """Eq. 8 and 9 with the exact lower bound of Clopper and Pearson: σ Φ⁻¹(p̲), 0 where p̲ is below one half."""
    lows = [stats.binomtest(int(k), draws).proportion_ci(1 - 2 * alpha, "exact").low for k in hits]
    return sigma * stats.norm.ppf(np.maximum(lows, 0.5))


def nearest(reps: np.ndarray, tail: int) -> np.ndarray:
    """D_i = (1 - ρ) / 2 of section 5, the λ smallest of each image."""
    distances = (1 - unit(reps) @ unit(reps).T) / 2
    np.fill_diagonal(distances, np.inf)
    return np.sort(distances, 1)[:, :tail]


def weibull_of_minimum(rows: np.ndarray) -> np.ndarray:
    """Theorem 23: the joint density of the λ smallest, maximised numerically; shape and scale of each row.

    Given the largest, the others are fitted; the scale then puts λ points below it.
    """
    fits = []
    for row in rows:
        ratios = np.log(row.max() / row[row < row.max()])
        # In log a, which may be any number
        likelihood = lambda t, ratios=ratios: np.exp(t) * ratios.sum() - len(ratios) * t  # noqa: E731
        found: Any = optimize.minimize_scalar(likelihood, bracket=(-1, 1), tol=1e-14)
        shape = float(np.exp(found.x))
        fits.append((shape, row.max() * len(row) ** (-1 / shape)))
    return np.array(fits)


def weibull_of_draws(rows: np.ndarray) -> np.ndarray:
    """Eq. 28 for the λ nearest as independent draws: shape and scale of each row, by the score equation."""
    fits = []
    for row in rows:
        y = np.log(row / row.max())
        slope = lambda a, y=y: (np.exp(a * y) * y).sum() / np.exp(a * y).sum() - 1 / a - y.mean()  # noqa: E731
        found: Any = optimize.brentq(slope, 1e-2, 1e4, xtol=1e-13)
        shape = float(found)
        fits.append((shape, row.max() * np.exp(shape * y).mean() ** (1 / shape)))
    return np.array(fits)


def positive(attacked: np.ndarray, own: np.ndarray, fits: np.ndarray) -> np.ndarray:
    """Theorem 14, Ψ(x; x⁺)."""
    return np.exp(-(((1 - cosine(attacked, own)) / fits[:, 1]) ** fits[:, 0]))


def beyond(values: np.ndarray, fits: np.ndarray, order: int) -> np.ndarray:
    """Eq. 36: Ψ_CL, the chance of fewer than k points of a Poisson law with mean τ."""
    return stats.poisson.cdf(order - 1, (values / fits[:, 1]) ** fits[:, 0])


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's correlation of Table 2."""
    return float(np.corrcoef(a, b)[0, 1])


def mutual(z: np.ndarray, temperature: float) -> float:
    """RoCL's loss (appendix E.3) of views [m, B, D]: -log softmax at the other views, over all but the image itself."""
    count, batch, _ = z.shape
    flat = unit(z).reshape(count * batch, -1)
    total = 0.0
    for i, own in enumerate(flat):
        scores = np.exp(flat @ own / temperature)
        scores[i] = 0
        total -= sum(np.log(scores[j] / scores.sum()) for j in range(i % batch, count * batch, batch) if j != i)
    return total / (count * batch)
