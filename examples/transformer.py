"""The forward pass of a small language model: a decoder-only transformer with random weights.

    python -m examples.transformer

Method: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; layer norm before each block,
GELU in its tanh form.
"""

import numpy as np

import numstax
from examples import show


def layer_norm(x, scale, shift):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + shift


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def attention(x, weights, heads):
    length, width = x.shape
    q, k, v = np.split(x @ weights["qkv"], 3, axis=-1)
    q, k, v = (a.reshape(length, heads, -1).transpose(1, 0, 2) for a in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(width // heads)
    future = np.triu(np.ones((length, length), bool), 1)
    scores = np.where(future, -1e10, scores)
    mixed = softmax(scores.astype(x.dtype)) @ v
    return mixed.transpose(1, 0, 2).reshape(length, width) @ weights["out"]


@numstax.jit
def logits(tokens, model, heads):
    x = model["embedding"][tokens] + model["position"][: len(tokens)]
    for layer in model["layers"]:
        x = x + attention(layer_norm(x, *layer["norm1"]), layer, heads)
        hidden = gelu(layer_norm(x, *layer["norm2"]) @ layer["up"] + layer["bias"])
        x = x + hidden.astype(x.dtype) @ layer["down"]
    return layer_norm(x, *model["norm"]) @ model["embedding"].T


def example(size):
    length, width, heads, depth, words = {"small": (12, 32, 4, 2, 50), "medium": (256, 256, 8, 4, 4096)}[size]
    rng = np.random.default_rng(11)

    def normal(*shape):
        return (rng.standard_normal(shape) * 0.05).astype(np.float32)

    def norm():
        return np.ones(width, np.float32) + normal(width), normal(width)

    layers = [
        {
            "norm1": norm(),
            "qkv": normal(width, 3 * width),
            "out": normal(width, width),
            "norm2": norm(),
            "up": normal(width, 4 * width),
            "bias": normal(4 * width),
            "down": normal(4 * width, width),
        }
        for _ in range(depth)
    ]
    model = {"embedding": normal(words, width), "position": normal(length, width), "layers": layers, "norm": norm()}
    return logits, (rng.integers(0, words, length), model, heads)


def main():
    show.run(example, lambda scores: f"next words {scores.argmax(axis=-1)[:8]}, largest score {scores.max():.4f}")


if __name__ == "__main__":
    main()
