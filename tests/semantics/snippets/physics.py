"""Physics and numerical methods, the way users write them."""

import math

import numpy as np


def heat(x, steps=20):
    u = x.copy()
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return u


def heat_new_array(v, steps=30):
    u = v.copy()
    for _ in range(steps):
        un = u.copy()
        u[1:-1] = un[1:-1] + 0.2 * (un[2:] - 2 * un[1:-1] + un[:-2])
        u[0] = 0
        u[-1] = u[-2]
    return u


def wave(v, steps=25):
    prev, now = v.copy(), v.copy()
    for _ in range(steps):
        nxt = 2 * now - prev
        nxt[1:-1] += 0.25 * (now[2:] - 2 * now[1:-1] + now[:-2])
        prev, now = now, nxt
    return now


def advect(v, steps=10):
    for _ in range(steps):
        v = v - 0.3 * (v - np.roll(v, 1))
    return v


def burgers(w, steps=20):
    u = w.copy()
    for _ in range(steps):
        un = u.copy()
        u[1:] = un[1:] - un[1:] * 0.02 * (un[1:] - un[:-1])
        u[0] = un[0]
    return u


def poisson(x, steps=30):
    p = np.zeros_like(x)
    for _ in range(steps):
        pn = p.copy()
        p[1:-1, 1:-1] = (pn[1:-1, 2:] + pn[1:-1, :-2] + pn[2:, 1:-1] + pn[:-2, 1:-1] - x[1:-1, 1:-1]) / 4
        p[0, :] = p[1, :]
        p[:, -1] = 0
    return p


def relax_until(w, tolerance=1e-3):
    u = w.copy()
    change, steps = 1.0, 0
    while change > tolerance and steps < 500:
        new = u.copy()
        new[1:-1] = 0.5 * (u[2:] + u[:-2])
        change = np.abs(new - u).max()
        u = new
        steps += 1
    return u, steps


def nbody(x):
    pos, vel = x[:, :3].astype(float), np.zeros((len(x), 3))
    for _ in range(5):
        d = pos[None, :, :] - pos[:, None, :]
        r2 = (d**2).sum(-1) + 0.01
        acc = (d * (r2**-1.5)[..., None]).sum(axis=1)
        vel += 0.01 * acc
        pos += 0.01 * vel
    return pos, 0.5 * (vel**2).sum()


def pairwise_by_loops(x):
    n = len(x)
    energy = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            r = np.sqrt(((x[i] - x[j]) ** 2).sum()) + 0.1
            energy += 1 / r**6 - 1 / r**3
    return energy


def pendulum(f, dt=0.01):
    theta, omega = f, 0.0
    track = np.zeros(40)
    for i in range(40):
        omega -= 9.81 * math.sin(theta) * dt
        theta += omega * dt
        track[i] = theta
    return track


def rk4(v):
    def rhs(t, y):
        return -y + np.sin(t)

    y, t, h = v.copy(), 0.0, 0.1
    for _ in range(20):
        k1 = rhs(t, y)
        k2 = rhs(t + h / 2, y + h / 2 * k1)
        k3 = rhs(t + h / 2, y + h / 2 * k2)
        k4 = rhs(t + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t += h
    return y


def lorenz(f, steps=50):
    state = np.array([f, 1.0, 1.05])
    out = np.empty((steps, 3))
    for i in range(steps):
        a, b, c = state
        state = state + 0.005 * np.array([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c])
        out[i] = state
    return out


def mandelbrot(n=12):
    re, im = np.meshgrid(np.linspace(-2, 1, n), np.linspace(-1.5, 1.5, n))
    c = re + 1j * im
    z = np.zeros_like(c)
    count = np.zeros(c.shape, dtype=int)
    for _ in range(20):
        alive = np.abs(z) <= 2
        z[alive] = z[alive] ** 2 + c[alive]
        count[alive] += 1
    return count


def julia(x, y):
    z = (x + 1j * y).astype(complex)
    for _ in range(6):
        z = z**2 - 0.8 + 0.156j
        z = np.where(np.abs(z) > 4, 4, z)
    return np.abs(z)


def game_of_life(m, steps=5):
    g = m.astype(int)
    for _ in range(steps):
        n = sum(np.roll(np.roll(g, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        g = ((n == 3) | ((g == 1) & (n == 2))).astype(int)
    return g


def ising_energy(m):
    s = np.where(m, 1, -1)
    return -(s * np.roll(s, 1, 0)).sum() - (s * np.roll(s, 1, 1)).sum(), s.mean()


def random_walk(n=50, seed=5):
    rng = np.random.default_rng(seed)
    steps = rng.choice([-1, 1], size=(n, 2))
    path = np.cumsum(steps, axis=0)
    return path, np.sqrt((path**2).sum(axis=1)).max()


def estimate_pi(n=500, seed=2):
    rng = np.random.default_rng(seed)
    x, y = rng.random(n), rng.random(n)
    return 4 * np.sum(x**2 + y**2 <= 1) / n


def trapezoid(v):
    h = 0.1
    return h * (0.5 * v[0] + v[1:-1].sum() + 0.5 * v[-1]), np.trapezoid(v, dx=h)


def simpson(w):
    n = len(w) // 2 * 2 - 1
    f = w[:n]
    return 0.1 / 3 * (f[0] + 4 * f[1:-1:2].sum() + 2 * f[2:-1:2].sum() + f[-1])


def newton(w):
    x = np.ones_like(w)
    for _ in range(8):
        x = x - (x * x - w) / (2 * x)
    return x


def bisect(f):
    lo, hi = 0.0, 3.0
    while hi - lo > 1e-6:
        mid = (lo + hi) / 2
        if mid * mid * mid - f > 0:
            hi = mid
        else:
            lo = mid
    return (lo + hi) / 2


def collatz(n=27):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def thomas(w):
    n = len(w)
    a, b, c = -np.ones(n), 4 * np.ones(n), -np.ones(n)
    d = w.astype(float)
    for i in range(1, n):
        f = a[i] / b[i - 1]
        b[i] -= f * c[i - 1]
        d[i] -= f * d[i - 1]
    d[-1] /= b[-1]
    for i in range(n - 2, -1, -1):
        d[i] = (d[i] - c[i] * d[i + 1]) / b[i]
    return d


def floyd_warshall(s):
    d = np.abs(s) * 10
    np.fill_diagonal(d, 0)
    for k in range(len(d)):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1, :])
    return d


def sieve(n=60):
    prime = np.ones(n, dtype=bool)
    prime[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if prime[i]:
            prime[i * i :: i] = False
    return prime


def crc(k):
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, np.uint32(0xEDB88320) ^ (table >> 1), table >> 1).astype(np.uint32)
    value = np.uint32(0xFFFFFFFF)
    for byte in k:
        value = table[(value ^ np.uint32(byte)) & np.uint32(0xFF)] ^ (value >> np.uint32(8))
    return value


def fibonacci(n=30):
    f = np.zeros(n, dtype=np.int64)
    f[1] = 1
    for i in range(2, n):
        f[i] = f[i - 1] + f[i - 2]
    return f


def spectral_derivative(v):
    k = np.fft.fftfreq(len(v), d=1 / len(v))
    return np.real(np.fft.ifft(1j * k * np.fft.fft(v)))


def curl(x, y):
    return np.gradient(y, axis=1) - np.gradient(x, axis=0), np.gradient(x)


def polar_grid(n=6):
    r, t = np.ogrid[0.1 : 1 : n * 1j, 0 : 2 * np.pi : n * 1j]
    return r * np.cos(t), r * np.sin(t)


def lattice_equilibrium(x, y):
    e = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1]])
    w = np.array([1 / 3] + [1 / 6] * 4)
    rho = np.ones_like(x)
    out = np.zeros((5, *x.shape))
    for q in range(5):
        cu = 3 * (e[q, 0] * x + e[q, 1] * y)
        out[q] = w[q] * rho * (1 + cu + 0.5 * cu**2 - 1.5 * (x**2 + y**2))
    return out, out.sum(axis=0)


def leapfrog_energy(v, w):
    q, p = v.copy(), w.copy()
    energies = []
    for _ in range(10):
        p -= 0.05 * q
        q += 0.1 * p
        p -= 0.05 * q
        energies.append(0.5 * np.dot(p, p) + 0.5 * np.dot(q, q))
    return np.array(energies)


def blackbody(w):
    h, c, kb = 6.626e-34, 2.998e8, 1.381e-23
    lam = np.linspace(100e-9, 2000e-9, len(w))
    return 2 * h * c**2 / (lam**5 * (np.exp(h * c / (lam * kb * 5000 * (1 + w))) - 1))


def inside_polygon(v, w):
    px, py = np.array([0.0, 2.0, 2.0, 0.0]), np.array([0.0, 0.0, 2.0, 2.0])
    inside = np.zeros(len(v), dtype=bool)
    j = 3
    for i in range(4):
        crosses = (py[i] > w) != (py[j] > w)
        with np.errstate(divide="ignore", invalid="ignore"):
            at = (px[j] - px[i]) * (w - py[i]) / (py[j] - py[i]) + px[i]
        inside ^= crosses & (v < at)
        j = i
    return inside
