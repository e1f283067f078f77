"""Linear algebra and machine learning, the way users write them."""

import numpy as np


def relu(x):
    return np.maximum(0, x)


def leaky_relu(x, slope=0.01):
    return np.where(x > 0, x, slope * x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def log_sum_exp(x):
    m = x.max(axis=1)
    return m + np.log(np.exp(x - m[:, None]).sum(axis=1))


def layer_norm(x, eps=1e-5):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


def rms_norm(x, eps=1e-6):
    return x * (np.mean(x * x, axis=-1, keepdims=True) + eps) ** -0.5


def dense(x, s):
    return relu(x[:, :6] @ s + s[0])


def mlp(x, s):
    h = np.tanh(x[:, :6] @ s.T)
    return softmax(h @ s)


def cross_entropy(x, k):
    p = softmax(x)
    return -np.log(p[np.arange(len(p)), k[: len(p)]] + 1e-12).mean()


def one_hot(k):
    return np.eye(6)[k]


def attention(s):
    scores = s @ s.T / np.sqrt(s.shape[-1])
    mask = np.triu(np.ones(scores.shape), 1) * -1e9
    return softmax(scores + mask) @ s


def multi_head(x):
    n, d = x.shape
    heads = x.reshape(n, 2, d // 2).transpose(1, 0, 2)
    scores = heads @ heads.transpose(0, 2, 1)
    out = softmax(scores) @ heads
    return out.transpose(1, 0, 2).reshape(n, d)


def positional(n=8, d=6):
    pos = np.arange(n)[:, np.newaxis]
    div = np.exp(np.arange(0, d, 2) * -(np.log(10000.0) / d))
    pe = np.zeros((n, d))
    pe[:, 0::2] = np.sin(pos * div)
    pe[:, 1::2] = np.cos(pos * div)
    return pe


def dropout(x, seed=1):
    keep = np.random.default_rng(seed).random(x.shape) > 0.5
    return np.where(keep, x / 0.5, 0)


def gradient_step(x, v):
    w = np.zeros(x.shape[1], dtype=x.dtype)
    target = v[: x.shape[0]]
    for _ in range(20):
        grad = x.T @ (x @ w - target) / len(target)
        w = w - 0.05 * grad
    return w


def adam(v):
    m = np.zeros_like(v)
    s = np.zeros_like(v)
    theta = v.copy()
    for t in range(1, 8):
        g = 2 * theta
        m = 0.9 * m + 0.1 * g
        s = 0.999 * s + 0.001 * g**2
        theta -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.999**t)) + 1e-8)
    return theta


def logistic_regression(x, m):
    w, b = np.zeros(x.shape[1]), 0.0
    y = m[:, 0].astype(float)
    for _ in range(25):
        p = sigmoid(x @ w + b)
        w -= 0.1 * x.T @ (p - y) / len(y)
        b -= 0.1 * np.mean(p - y)
    return w, b


def kmeans(x):
    centres = x[:2].copy()
    labels = np.zeros(len(x), dtype=int)
    for _ in range(4):
        d = ((x[:, None] - centres[None]) ** 2).sum(-1)
        labels = d.argmin(axis=1)
        for c in range(2):
            chosen = labels == c
            centres[c] = np.where(chosen[:, None], x, 0).sum(0) / np.maximum(chosen.sum(), 1)
    return centres, labels


def knn(x, v):
    d = np.abs(v[:, None] - v[None, :])
    near = np.argsort(d, axis=1, kind="stable")[:, 1:4]
    return v[near].mean(axis=1)


def pca(x):
    a = x - x.mean(axis=0)
    _, s, vt = np.linalg.svd(a, full_matrices=False)
    return np.abs(vt[:2]), s**2 / (len(x) - 1)


def batch_iteration(x):
    losses = []
    for start in range(0, len(x), 2):
        batch = x[start : start + 2]
        losses.append((batch**2).mean())
    return np.mean(losses), np.array(losses)


def conv1d_layer(x):
    kernel = np.array([0.25, 0.5, 0.25], dtype=x.dtype)
    return sum(kernel[j] * x[:, j : x.shape[1] - 2 + j] for j in range(3))


def accuracy(x, k):
    return (x.argmax(axis=1) == k[: len(x)]).mean()


def gram_schmidt(s):
    q = np.zeros_like(s)
    for j in range(s.shape[1]):
        u = s[:, j].copy()
        for i in range(j):
            u -= (q[:, i] @ s[:, j]) * q[:, i]
        q[:, j] = u / np.linalg.norm(u)
    return q


def power_iteration(s):
    a = s @ s.T
    b = np.ones(a.shape[0]) / np.sqrt(a.shape[0])
    for _ in range(30):
        b = a @ b
        b = b / np.linalg.norm(b)
    return b @ a @ b


def gauss_eliminate(s, v):
    a = s @ s.T + np.eye(len(s)) * 6
    b = v[: len(s)].astype(float)
    n = len(b)
    for i in range(n):
        for j in range(i + 1, n):
            factor = a[j, i] / a[i, i]
            a[j, i:] -= factor * a[i, i:]
            b[j] -= factor * b[i]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - np.dot(a[i, i + 1 :], x[i + 1 :])) / a[i, i]
    return x


def cholesky(s):
    a = s @ s.T + 6 * np.eye(len(s))
    low = np.zeros_like(a)
    for i in range(len(a)):
        for j in range(i + 1):
            total = a[i, j] - np.sum(low[i, :j] * low[j, :j])
            low[i, j] = np.sqrt(total) if i == j else total / low[j, j]
    return low


def jacobi(s, v):
    a = s + 20 * np.eye(len(s))
    b = v[: len(s)]
    x = np.zeros(len(b))
    d = np.diag(a)
    for _ in range(15):
        x = (b - (a - np.diagflat(d)) @ x) / d
    return x


def householder(v):
    u = v.copy()
    u[0] += np.sign(v[0]) * np.linalg.norm(v)
    u /= np.linalg.norm(u)
    return np.eye(len(v)) - 2 * np.outer(u, u)


def rotation(f):
    c, s = np.cos(f), np.sin(f)
    r = np.array([[c, -s], [s, c]])
    return r @ r.T, r @ np.array([1.0, 2.0]), np.linalg.det(r)


def matrix_chain(s):
    return np.linalg.multi_dot([s, s, s]), np.linalg.matrix_power(s, 3), s.trace(), np.kron(s[:2, :2], np.eye(2))


def einsums(x, s):
    return (
        np.einsum("ij,ij->i", x, x),
        np.einsum("ij,kj->ik", x, x),
        np.einsum("ii", s),
        np.einsum("i,j->ij", s[0], s[1]),
    )


def pagerank(m):
    links = m[:6, :6].astype(float) + np.eye(6)
    links /= links.sum(axis=0)
    r = np.ones(6) / 6
    for _ in range(20):
        r = 0.15 / 6 + 0.85 * links @ r
    return r


def polynomial_features(v):
    return np.vander(v, 4, increasing=True), np.stack([v**p for p in range(4)], axis=1)


def cosine_similarity(x):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit @ unit.T
