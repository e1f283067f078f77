"""Two-dimensional turbulence: the vorticity equation in a periodic box, with a pseudo-spectral method.

    python -m examples.turbulence --picture vorticity.png

Method: products in space, derivatives in Fourier space with the 2/3 rule against aliasing, fourth-order Runge-Kutta
in time; Canuto et al., "Spectral Methods: Evolution to Complex Geometries", Springer 2007, section 3.3.
"""

import numpy as np

import numstax
from examples import show


def tendency(spectrum, kx, ky, square, viscosity, keep):
    stream = spectrum / square
    u = np.fft.ifft2(1j * ky * stream).real
    v = np.fft.ifft2(-1j * kx * stream).real
    wx = np.fft.ifft2(1j * kx * spectrum).real
    wy = np.fft.ifft2(1j * ky * spectrum).real
    advection = np.fft.fft2(u * wx + v * wy)
    return -(keep * advection) - viscosity * (kx**2 + ky**2) * spectrum


@numstax.jit
def simulate(vorticity, steps, dt, viscosity):
    n = vorticity.shape[0]
    k = np.fft.fftfreq(n, 1 / n)
    kx, ky = k[:, None], k[None, :]
    square = kx**2 + ky**2
    square[0, 0] = 1.0
    keep = (np.abs(kx) < n / 3) & (np.abs(ky) < n / 3)

    spectrum = np.fft.fft2(vorticity)
    for _ in range(steps):
        k1 = tendency(spectrum, kx, ky, square, viscosity, keep)
        k2 = tendency(spectrum + 0.5 * dt * k1, kx, ky, square, viscosity, keep)
        k3 = tendency(spectrum + 0.5 * dt * k2, kx, ky, square, viscosity, keep)
        k4 = tendency(spectrum + dt * k3, kx, ky, square, viscosity, keep)
        spectrum = spectrum + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.fft.ifft2(spectrum).real


def example(size):
    n, steps = {"small": (32, 4), "medium": (256, 10)}[size]
    rng = np.random.default_rng(7)
    k = np.fft.fftfreq(n, 1 / n)
    size_k = np.hypot(k[:, None], k[None, :])
    noise = np.fft.fft2(rng.standard_normal((n, n))) * np.exp(-(((size_k - 6) / 2) ** 2))
    vorticity = np.fft.ifft2(noise).real
    return simulate, (10 * vorticity / vorticity.std(), steps, 0.002, 1e-3)


def draw(figure, arguments, vorticity):
    axes = figure.subplots()
    figure.colorbar(axes.imshow(vorticity, cmap="RdBu"), label="vorticity")


def main():
    show.run(example, lambda w: f"enstrophy {(w**2).mean() / 2:.6f}", draw)


if __name__ == "__main__":
    main()
