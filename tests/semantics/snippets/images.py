"""Image processing and signals, the way users write them."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def grayscale(rgb):
    return (rgb[..., 0] * 0.299 + rgb[..., 1] * 0.587 + rgb[..., 2] * 0.114).clip(0, 1)


def to_bytes(x):
    lo, hi = x.min(), x.max()
    return ((x - lo) / (hi - lo) * 255).astype(np.uint8)


def gamma_correct(y, gamma=2.2):
    return np.power(y / y.max(), 1 / gamma)


def box_blur(x):
    out = np.zeros_like(x)
    p = np.pad(x, 1, mode="edge")
    for i in range(3):
        for j in range(3):
            out += p[i : i + x.shape[0], j : j + x.shape[1]]
    return out / 9


def sobel(x):
    p = np.pad(x, 1, mode="reflect")
    gx = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]
    gy = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]
    return np.hypot(gx, gy), np.arctan2(gy, gx)


def convolve_by_loops(x):
    kernel = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], dtype=x.dtype)
    h, w = x.shape
    out = np.zeros((h - 2, w - 2), dtype=x.dtype)
    for i in range(h - 2):
        for j in range(w - 2):
            out[i, j] = np.sum(x[i : i + 3, j : j + 3] * kernel)
    return out


def median_filter(x):
    return np.median(sliding_window_view(np.pad(x, 1, mode="edge"), (3, 3)), axis=(2, 3))


def max_pool(x):
    h, w = x.shape
    return x[: h // 2 * 2, : w // 2 * 2].reshape(h // 2, 2, w // 2, 2).max(axis=(1, 3))


def upsample(x):
    return x.repeat(2, axis=0).repeat(2, axis=1)


def threshold(x):
    out = np.zeros(x.shape, dtype=np.uint8)
    out[x > x.mean()] = 255
    return out


def clip_in_place(x):
    x[x < 0] = 0
    x[x > 1] = 1
    return x


def crop_flip_rotate(x):
    return x[1:-1, 2:-2], np.fliplr(x), np.rot90(x), x[::-1, ::2], x.T[::-1]


def histogram_equalise(y):
    levels = np.minimum((y / y.max() * 15).astype(np.int64), 15)
    counts = np.bincount(levels.ravel(), minlength=16)
    cdf = counts.cumsum() / levels.size
    return cdf[levels]


def checkerboard(x):
    rows, columns = np.indices(x.shape)
    return np.where((rows + columns) % 2 == 0, x, -x)


def vignette(x):
    h, w = x.shape
    yy, xx = np.mgrid[0:h, 0:w]
    r2 = (yy - h / 2) ** 2 + (xx - w / 2) ** 2
    return x * np.exp(-r2 / (h * w))


def blend(x, y, alpha=0.3):
    return alpha * x + (1 - alpha) * y


def alpha_composite(rgb):
    a = np.clip(rgb.mean(axis=2), 0, 1)[..., np.newaxis]
    return rgb * a + (1 - a) * 0.5


def dilate(m):
    out = m.copy()
    out[1:] |= m[:-1]
    out[:-1] |= m[1:]
    out[:, 1:] |= m[:, :-1]
    out[:, :-1] |= m[:, 1:]
    return out


def integral_image(x):
    s = np.cumsum(np.cumsum(x, axis=0), axis=1)
    return s[2:, 2:] - s[:-2, 2:] - s[2:, :-2] + s[:-2, :-2]


def bilinear(x):
    h, w = x.shape
    ys, xs = np.linspace(0, h - 1, 9), np.linspace(0, w - 1, 11)
    y0, x0 = np.floor(ys).astype(int), np.floor(xs).astype(int)
    y1, x1 = np.minimum(y0 + 1, h - 1), np.minimum(x0 + 1, w - 1)
    wy, wx = (ys - y0)[:, None], (xs - x0)[None, :]
    top = x[np.ix_(y0, x0)] * (1 - wx) + x[np.ix_(y0, x1)] * wx
    bottom = x[np.ix_(y1, x0)] * (1 - wx) + x[np.ix_(y1, x1)] * wx
    return top * (1 - wy) + bottom * wy


def channel_statistics(rgb):
    flat = rgb.reshape(-1, 3)
    return flat.mean(axis=0), flat.std(axis=0), (rgb - flat.mean(axis=0)) / flat.std(axis=0)


def psnr(x, y):
    mse = np.mean((x - y) ** 2)
    return 20 * np.log10(1.0 / np.sqrt(mse))


def moving_average(v, window=3):
    return np.convolve(v, np.ones(window) / window, mode="valid")


def moving_average_by_cumsum(v, n=4):
    total = np.cumsum(v)
    total[n:] = total[n:] - total[:-n]
    return total[n - 1 :] / n


def exponential_smoothing(v, alpha=0.3):
    out = np.empty_like(v)
    out[0] = v[0]
    for i in range(1, len(v)):
        out[i] = alpha * v[i] + (1 - alpha) * out[i - 1]
    return out


def spectrum(v):
    windowed = v * np.hanning(len(v))
    return np.abs(np.fft.rfft(windowed)) ** 2, np.fft.rfftfreq(len(v), d=0.1)


def low_pass(v):
    f = np.fft.fft(v)
    freqs = np.fft.fftfreq(len(v))
    f[np.abs(freqs) > 0.25] = 0
    return np.fft.ifft(f).real


def zero_crossings(v):
    return np.sum(np.diff(np.sign(v)) != 0)


def frames(v, size=4, hop=2):
    count = 1 + (len(v) - size) // hop
    index = np.arange(size)[None, :] + hop * np.arange(count)[:, None]
    return v[index] * np.hamming(size)


def autocorrelation(v):
    a = v - v.mean()
    full = np.correlate(a, a, mode="full")
    return full[full.size // 2 :] / full[full.size // 2]


def chirp(n=64):
    t = np.linspace(0, 1, n, endpoint=False)
    return np.sin(2 * np.pi * (5 * t + 10 * t**2)) * np.exp(-3 * t)


def quantise(v, bits=4):
    levels = 2**bits
    return np.round((v - v.min()) / np.ptp(v) * (levels - 1)) / (levels - 1)


def upsample_linear(v):
    t = np.arange(len(v))
    return np.interp(np.linspace(0, len(v) - 1, 2 * len(v) - 1), t, v)
