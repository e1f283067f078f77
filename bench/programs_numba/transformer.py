"""The transformer: matrix products by NumPy, everything between them in one pass over each row."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

f4 = np.float32
_rows = njit(parallel=True, fastmath={"reassoc"})


@_rows
def _layer_norm(x, scale, shift):
    n, m = x.shape
    out = np.empty_like(x)
    for i in prange(n):
        total = f4(0)
        for j in range(m):
            total += x[i, j]
        mean = total / f4(m)
        squares = f4(0)
        for j in range(m):
            squares += (x[i, j] - mean) * (x[i, j] - mean)
        root = f4(math.sqrt(squares / f4(m) + f4(1e-5)))
        for j in range(m):
            out[i, j] = (x[i, j] - mean) / root * scale[j] + shift[j]
    return out


@_rows
def _causal_softmax(scores, root):
    heads, n, _ = scores.shape
    for row in prange(heads * n):
        line, i = scores[row // n, row % n], row % n
        top = f4(-np.inf)
        for j in range(i + 1):
            line[j] /= root
            top = max(top, line[j])
        total = f4(0)
        for j in range(i + 1):
            line[j] = f4(math.exp(line[j] - top))
            total += line[j]
        for j in range(i + 1):
            line[j] /= total
        for j in range(i + 1, n):
            line[j] = f4(0)


@_rows
def _bias_gelu(x, bias):
    c = f4(math.sqrt(2 / math.pi))
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            v = x[i, j] + bias[j]
            x[i, j] = f4(0.5) * v * (f4(1) + f4(math.tanh(c * (v + f4(0.044715) * v * v * v))))


def transformer(tokens, model, heads):
    x = model["embedding"][tokens] + model["position"][: len(tokens)]
    length, width = x.shape
    for layer in model["layers"]:
        qkv = (_layer_norm(x, *layer["norm1"]) @ layer["qkv"]).reshape(length, 3, heads, -1)
        q, k, v = qkv.transpose(1, 2, 0, 3)
        scores = q @ k.transpose(0, 2, 1)
        _causal_softmax(scores, f4(math.sqrt(width // heads)))
        x += (scores @ v).transpose(1, 0, 2).reshape(length, width) @ layer["out"]
        hidden = _layer_norm(x, *layer["norm2"]) @ layer["up"]
        _bias_gelu(hidden, layer["bias"])
        x += hidden @ layer["down"]
    return _layer_norm(x, *model["norm"]) @ model["embedding"].T
