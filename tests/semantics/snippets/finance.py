"""Finance and statistics, the way users write them."""

import math

import numpy as np


def simple_returns(w):
    return w[1:] / w[:-1] - 1


def log_returns(w):
    return np.diff(np.log(w))


def volatility(w):
    r = np.diff(np.log(w))
    return r.std(ddof=1) * np.sqrt(252)


def sharpe(v, rate=0.01):
    excess = v - rate / 252
    return excess.mean() / excess.std() * math.sqrt(252)


def max_drawdown(w):
    peak = np.maximum.accumulate(w)
    return ((w - peak) / peak).min()


def normal_cdf(v):
    return 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))


def black_scholes(w, strike=1.0, rate=0.02, sigma=0.3, years=0.5):
    d1 = (np.log(w / strike) + (rate + 0.5 * sigma**2) * years) / (sigma * np.sqrt(years))
    d2 = d1 - sigma * np.sqrt(years)
    return w * normal_cdf(d1) - strike * np.exp(-rate * years) * normal_cdf(d2)


def binomial_tree(f, steps=12):
    dt = 1 / steps
    u = np.exp(0.2 * np.sqrt(dt))
    d = 1 / u
    p = (np.exp(0.05 * dt) - d) / (u - d)
    j = np.arange(steps + 1)
    values = np.maximum(f * u**j * d ** (steps - j) - 1.0, 0)
    for _ in range(steps):
        values = np.exp(-0.05 * dt) * (p * values[1:] + (1 - p) * values[:-1])
    return values[0]


def monte_carlo_price(f, seed=7):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((200, 8))
    paths = f * np.exp(np.cumsum(0.01 - 0.02 + 0.2 * z, axis=1))
    payoff = np.maximum(paths[:, -1] - 1.0, 0.0)
    return payoff.mean(), payoff.std() / np.sqrt(len(payoff))


def ema_crossover(w):
    fast, slow = np.zeros_like(w), np.zeros_like(w)
    fast[0] = slow[0] = w[0]
    for i in range(1, len(w)):
        fast[i] = 0.5 * w[i] + 0.5 * fast[i - 1]
        slow[i] = 0.2 * w[i] + 0.8 * slow[i - 1]
    return np.where(fast > slow, 1, -1)


def rsi(w):
    delta = np.diff(w)
    up, down = np.where(delta > 0, delta, 0), np.where(delta < 0, -delta, 0)
    return 100 - 100 / (1 + up.mean() / down.mean())


def bollinger(w, n=3):
    rows = np.array([w[i : i + n] for i in range(len(w) - n + 1)])
    mid, spread = rows.mean(axis=1), rows.std(axis=1)
    return mid - 2 * spread, mid, mid + 2 * spread


def portfolio(x):
    mu, sigma = x.mean(axis=0), np.cov(x, rowvar=False)
    weights = np.ones(len(mu)) / len(mu)
    return weights @ mu, np.sqrt(weights @ sigma @ weights)


def correlation(x):
    return np.corrcoef(x)


def value_at_risk(v, level=5):
    cut = np.percentile(v, level)
    return cut, v[v <= cut].mean()


def compound(f, years=10):
    balance = 100.0
    history = []
    for _ in range(years):
        balance = balance * (1 + f / 10)
        history.append(balance)
    return np.array(history)


def npv(v, rate=0.05):
    return np.sum(v / (1 + rate) ** np.arange(len(v)))


def bond_duration(w, rate=0.03):
    t = np.arange(1, len(w) + 1)
    present = w * np.exp(-rate * t)
    return (t * present).sum() / present.sum()


def zscore(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def minmax(x):
    return (x - x.min(0)) / (x.max(0) - x.min(0))


def standard_error(x):
    n = x.shape[0]
    return x.std(axis=0, ddof=1) / np.sqrt(n)


def skew_kurtosis(v):
    z = (v - v.mean()) / v.std()
    return np.mean(z**3), np.mean(z**4) - 3


def least_squares_line(v, w):
    xm, ym = v.mean(), w.mean()
    slope = ((v - xm) * (w - ym)).sum() / ((v - xm) ** 2).sum()
    return slope, ym - slope * xm


def normal_equations(x, v):
    a = np.column_stack([np.ones(len(x)), x[:, 0], x[:, 1]])
    return np.linalg.solve(a.T @ a, a.T @ v[: len(x)])


def histogram_entropy(k):
    counts = np.bincount(k, minlength=6)
    p = counts / counts.sum()
    p = np.where(p > 0, p, 1)
    return -(p * np.log2(p)).sum()


def confusion(k):
    out = np.zeros((6, 6), dtype=int)
    np.add.at(out, (k, k[::-1]), 1)
    return out


def bootstrap_means(v, seed=3):
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(v), size=(20, len(v)))
    means = v[picks].mean(axis=1)
    return np.sort(means)[[1, 18]]


def winsorise(v):
    low, high = np.quantile(v, [0.1, 0.9])
    return np.clip(v, low, high)


def rank(v):
    order = v.argsort()
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(v))
    return ranks


def group_means(v, k):
    sums = np.zeros(6, dtype=v.dtype)
    counts = np.zeros(6, dtype=int)
    for i in range(len(v)):
        sums[k[i]] += v[i]
        counts[k[i]] += 1
    return sums / np.maximum(counts, 1)


def gini(w):
    s = np.sort(w)
    n = len(s)
    return (2 * np.arange(1, n + 1) - n - 1) @ s / (n * s.sum())


def euclidean_matrix(x):
    d = x[:, None, :] - x[None, :, :]
    return np.sqrt((d**2).sum(-1))


def weighted_percent(w):
    share = w / w.sum() * 100
    return {"share": np.round(share, 1), "largest": share.max(), "which": int(share.argmax())}


def running_variance(v):
    mean = m2 = 0.0
    n = 0
    for value in v:
        n += 1
        delta = value - mean
        mean += delta / n
        m2 += delta * (value - mean)
    return mean, m2 / (n - 1)
