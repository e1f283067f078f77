"""Programs of whole-array arithmetic, fused by hand; FFTs are NumPy's, the median is a sorting network."""

from __future__ import annotations

import math

import numpy as np
from numba import get_num_threads, njit, prange

f4 = np.float32
_parallel = njit(parallel=True)
_sums = njit(parallel=True, fastmath={"reassoc"})


@_sums
def _acceleration(position, mass, softening, force):
    n = len(mass)
    x, y, z = position[:, 0].copy(), position[:, 1].copy(), position[:, 2].copy()
    for i in prange(n):
        ax, ay, az = 0.0, 0.0, 0.0
        for j in range(n):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            square = dx * dx + dy * dy + dz * dz + softening**2
            pull = mass[j] / (square * math.sqrt(square))
            ax += dx * pull
            ay += dy * pull
            az += dz * pull
        force[i, 0], force[i, 1], force[i, 2] = ax, ay, az


@njit
def nbody(position, velocity, mass, steps, dt, softening):
    force = np.empty_like(position)
    _acceleration(position, mass, softening, force)
    for _ in range(steps):
        for i in range(len(mass)):
            for k in range(3):
                velocity[i, k] += 0.5 * dt * force[i, k]
                position[i, k] += dt * velocity[i, k]
        _acceleration(position, mass, softening, force)
        for i in range(len(mass)):
            for k in range(3):
                velocity[i, k] += 0.5 * dt * force[i, k]
    return position, velocity


@_parallel
def kmeans(points, centres, rounds):
    n, width = points.shape
    count, threads = len(centres), get_num_threads()
    centres = centres.copy()
    labels = np.full(n, -1)
    for _ in range(rounds):
        total, members = np.zeros((threads, count, width)), np.zeros((threads, count), np.int64)
        changed = 0
        for t in prange(threads):
            moved = 0
            for i in range(t * n // threads, (t + 1) * n // threads):
                best, nearest = np.inf, 0
                for k in range(count):
                    distance = 0.0
                    for d in range(width):
                        distance += (points[i, d] - centres[k, d]) ** 2
                    if distance < best:
                        best, nearest = distance, k
                moved += nearest != labels[i]
                labels[i] = nearest
                members[t, nearest] += 1
                for d in range(width):
                    total[t, nearest, d] += points[i, d]
            changed += moved
        if changed == 0:
            break
        for k in range(count):
            number = members[:, k].sum()
            if number > 0:
                for d in range(width):
                    centres[k, d] = total[:, k, d].sum() / number
    return centres, labels


@njit
def _density(x):
    return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


@njit
def _cdf(x):
    k = 1.0 / (1.0 + 0.2316419 * abs(x))
    poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    upper = _density(x) * poly
    return upper if x < 0 else 1.0 - upper


@_parallel
def black_scholes(spot, strike, years, rate, volatility):
    call, put = np.empty_like(spot), np.empty_like(spot)
    delta, gamma, vega = np.empty_like(spot), np.empty_like(spot), np.empty_like(spot)
    for i in prange(spot.size):
        s, root_years = spot[i], math.sqrt(years[i])
        root = volatility * root_years
        d1 = (math.log(s / strike[i]) + (rate + 0.5 * volatility**2) * years[i]) / root
        discounted = strike[i] * math.exp(-rate * years[i])
        density = _density(d1)
        delta[i] = _cdf(d1)
        call[i] = s * delta[i] - discounted * _cdf(d1 - root)
        put[i] = call[i] - s + discounted
        gamma[i] = density / (s * root)
        vega[i] = s * density * root_years
    return call, put, delta, gamma, vega


@_sums
def monte_carlo(rng, paths, days, spot, strike, rate, volatility):
    dt = 1.0 / 252
    drift = (rate - 0.5 * volatility**2) * dt
    scale = volatility * math.sqrt(dt)
    price, total = np.full(paths, spot), np.zeros(paths)
    for _ in range(days):
        noise = rng.standard_normal(paths)
        for i in prange(paths):
            price[i] *= math.exp(drift + scale * noise[i])
            total[i] += price[i]
    discount = math.exp(-rate * days * dt)
    payoff_sum, final_sum = 0.0, 0.0
    for i in prange(paths):
        total[i] = discount * max(total[i] / days - strike, 0.0)
        price[i] *= discount
        payoff_sum += total[i]
        final_sum += price[i]
    payoff_mean, final_mean = payoff_sum / paths, final_sum / paths
    covariance, variance = 0.0, 0.0
    for i in prange(paths):
        covariance += (total[i] - payoff_mean) * (price[i] - final_mean)
        variance += (price[i] - final_mean) ** 2
    slope = covariance / variance
    mean = payoff_mean - slope * (final_mean - spot)
    squares = 0.0
    for i in prange(paths):
        squares += (total[i] - slope * (price[i] - spot) - mean) ** 2
    return mean, math.sqrt(squares / paths) / math.sqrt(paths)


@njit
def _clamp(k, n):
    return min(max(k, 0), n - 1)


@njit
def _mirror(k, n):
    return -k if k < 0 else (2 * n - 2 - k if k >= n else k)


@_parallel
def _blur(image, taps):
    rows, columns = image.shape
    radius = len(taps) // 2
    out = np.empty((rows, columns))
    for i in prange(rows):
        line = np.zeros(columns + 2 * radius)
        for k in range(len(taps)):
            source = image[_clamp(i + k - radius, rows)]
            for j in range(columns):
                line[j + radius] += taps[k] * source[j]
        line[:radius] = line[radius]
        line[columns + radius :] = line[columns + radius - 1]
        for j in range(columns):
            total = 0.0
            for k in range(len(taps)):
                total += taps[k] * line[j + k]
            out[i, j] = total
    return out


@_parallel
def _edges(image):
    rows, columns = image.shape
    out = np.empty((rows, columns))
    for i in prange(rows):
        a, b, c = image[_clamp(i - 1, rows)], image[i], image[_clamp(i + 1, rows)]
        for j in range(columns):
            w, e = _clamp(j - 1, columns), _clamp(j + 1, columns)
            gx = (a[e] + 2 * b[e] + c[e]) - (a[w] + 2 * b[w] + c[w])
            gy = (c[w] + 2 * c[j] + c[e]) - (a[w] + 2 * a[j] + a[e])
            out[i, j] = math.hypot(gx, gy)
    return out


@njit
def _sort3(a, b, c):
    low, high = min(a, b), max(a, b)
    return min(low, c), max(low, min(high, c)), max(high, c)


@_parallel
def _median(image):
    """Of the three sorted columns: the median of the largest low, the median middle and the smallest high."""
    rows, columns = image.shape
    out = np.empty((rows, columns))
    for i in prange(rows):
        a, b, c = image[_mirror(i - 1, rows)], image[i], image[_mirror(i + 1, rows)]
        for j in range(columns):
            w, e = _mirror(j - 1, columns), _mirror(j + 1, columns)
            low1, middle1, high1 = _sort3(a[w], b[w], c[w])
            low2, middle2, high2 = _sort3(a[j], b[j], c[j])
            low3, middle3, high3 = _sort3(a[e], b[e], c[e])
            low, high = max(low1, low2, low3), min(high1, high2, high3)
            out[i, j] = _sort3(low, _sort3(middle1, middle2, middle3)[1], high)[1]
    return out


@_parallel
def _equalise(image):
    flat = image.ravel()
    levels, out = np.empty(flat.size, np.uint8), np.empty(flat.size)
    histogram = np.zeros(256, np.int64)
    for i in range(flat.size):
        levels[i] = np.uint8(min(max(flat[i] * 256, 0.0), 255.0))
        histogram[levels[i]] += 1
    share = np.cumsum(histogram) / flat.size
    for i in prange(flat.size):
        out[i] = share[levels[i]]
    return out.reshape(image.shape)


def image_filters(image):
    taps = np.exp(-0.5 * (np.arange(-6, 7) / 2.0) ** 2)
    return _blur(image, taps / taps.sum()), _edges(image), _median(image), _equalise(image)


@_parallel
def _derivatives(spectrum, k, square, parts):
    n = len(k)
    for i in prange(n):
        for j in range(n):
            stream = spectrum[i, j] / square[i, j]
            parts[0, i, j] = 1j * k[j] * stream
            parts[1, i, j] = -1j * k[i] * stream
            parts[2, i, j] = 1j * k[i] * spectrum[i, j]
            parts[3, i, j] = 1j * k[j] * spectrum[i, j]


@_parallel
def _product(fields, out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = fields[0, i, j].real * fields[2, i, j].real + fields[1, i, j].real * fields[3, i, j].real


@_parallel
def _advance(start, spectrum, advection, k, viscosity, weight, total, share, after):
    """The tendency joins `total`; `after` is where the next stage starts."""
    n = len(k)
    for i in prange(n):
        for j in range(n):
            keep = abs(k[i]) < n / 3 and abs(k[j]) < n / 3
            change = -viscosity * (k[i] ** 2 + k[j] ** 2) * spectrum[i, j]
            if keep:
                change -= advection[i, j]
            total[i, j] += share * change
            after[i, j] = start[i, j] + weight * change


@_parallel
def _finish(start, total, sixth):
    for i in prange(start.shape[0]):
        for j in range(start.shape[1]):
            start[i, j] += sixth * total[i, j]
            total[i, j] = 0


def turbulence(vorticity, steps, dt, viscosity):
    n = vorticity.shape[0]
    k = np.fft.fftfreq(n, 1 / n)
    square = k[:, None] ** 2 + k[None, :] ** 2
    square[0, 0] = 1.0
    start = np.fft.fft2(vorticity)
    parts, product = np.empty((4, n, n), complex), np.empty((n, n))
    total, after = np.zeros_like(start), np.empty_like(start)
    for _ in range(steps):
        stage = start
        for weight, share in ((0.5 * dt, 1.0), (0.5 * dt, 2.0), (dt, 2.0), (0.0, 1.0)):
            _derivatives(stage, k, square, parts)
            _product(np.fft.ifft2(parts), product)
            _advance(start, stage, np.fft.fft2(product), k, viscosity, weight, total, share, after)
            stage = after
        _finish(start, total, dt / 6)
    return np.fft.ifft2(start).real
