"""Four classics of image processing: Gaussian blur, Sobel edges, 3x3 median, histogram equalisation.

    python -m examples.image_filters --picture filters.png

Method: Gonzalez and Woods, "Digital Image Processing", 4th edition, chapters 3 and 10.
"""

import numpy as np

import numstax
from examples import show


def blur(image, sigma):
    radius = int(3 * sigma)
    taps = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    taps /= taps.sum()
    padded = np.pad(image, radius, mode="edge")
    rows, columns = image.shape
    down = np.zeros((rows, columns + 2 * radius))
    for k in range(2 * radius + 1):
        down += taps[k] * padded[k : k + rows, :]
    across = np.zeros((rows, columns))
    for k in range(2 * radius + 1):
        across += taps[k] * down[:, k : k + columns]
    return across


def edges(image):
    p = np.pad(image, 1, mode="edge")
    gx = (p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[1:-1, :-2] + p[2:, :-2])
    gy = (p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:]) - (p[:-2, :-2] + 2 * p[:-2, 1:-1] + p[:-2, 2:])
    return np.hypot(gx, gy)


def median(image):
    padded = np.pad(image, 1, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    return np.median(windows, axis=(2, 3))


def equalise(image):
    levels = np.clip(image * 256, 0, 255).astype(np.uint8)
    histogram = np.bincount(levels.ravel(), minlength=256)
    share = np.cumsum(histogram) / levels.size
    return share[levels]


@numstax.jit
def filters(image):
    return blur(image, 2.0), edges(image), median(image), equalise(image)


def example(size):
    n = {"small": 48, "medium": 512}[size]
    rng = np.random.default_rng(10)
    y, x = np.mgrid[0 : 1 : 1j * n, 0 : 1 : 1j * n]
    image = 0.3 + 0.2 * np.sin(20 * x * y) + 0.3 * ((x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.09)
    image[rng.random((n, n)) < 0.02] = 1.0
    return filters, (np.clip(image + 0.03 * rng.standard_normal((n, n)), 0, 1),)


def draw(figure, arguments, result):
    titles = ("image", "Gaussian blur", "Sobel edges", "median 3x3", "equalised")
    for k, (title, picture) in enumerate(zip(titles, (arguments[0], *result), strict=True)):
        axes = figure.add_subplot(2, 3, k + 1)
        axes.imshow(picture, cmap="gray")
        axes.set_title(title)


def main():
    def found(result):
        return "means: " + ", ".join(f"{picture.mean():.5f}" for picture in result)

    show.run(example, found, draw)


if __name__ == "__main__":
    main()
