"""explain: kernels with lines and times, bytes needed and moved, refusals, plain NumPy, pictures."""

import numpy as np
import pytest

import numstax
from numstax.picture import draw, nbytes_text

X = np.ones((300, 400), np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_text_names_kernels_lines_and_bytes():
    text = str(numstax.explain(softmax, X))
    for part in ("softmax", "exp", "test_explain.py", "us", "bytes needed 960.0 kB", "moved", "GB/s"):
        assert part in text


def test_one_pass_moves_what_is_needed():
    found = numstax.explain(lambda x: np.exp(x) * 2 + x, X)
    assert found.moved == found.needed == 2 * X.nbytes
    assert len(found.units) == 1
    assert 0 < found.units[0].seconds < 1


def test_library_calls_and_their_neighbours_are_separate():
    found = numstax.explain(lambda x: np.linalg.eigvalsh(x + x.T) * 2, np.ones((5, 5)))
    assert [unit.name for unit in found.units][1].endswith("eigvalsh")
    assert found.moved > found.needed


def test_jitted_functions_keep_their_specialisations():
    compiled = numstax.jit(softmax)
    compiled(X)
    numstax.explain(compiled, X)
    assert compiled.compile_count == 1


@pytest.mark.filterwarnings("ignore::numstax.NumstaxWarning")
def test_what_runs_as_numpy_says_why():
    found = numstax.explain(lambda x: x * float(f"{x.sum()}"), X)
    assert "runs as plain NumPy" in str(found)
    assert "reference" in str(numstax.explain(numstax.jit(softmax, backend="reference"), X))


def test_picture(tmp_path):
    numstax.explain(softmax, X).plot(tmp_path / "graph.png")
    assert (tmp_path / "graph.png").stat().st_size > 1000


def test_picture_shows_what_fused():
    found = numstax.explain(lambda x: np.sort(softmax(x)), X)
    figure = draw(found.schedule, found.seconds)
    texts = [t.get_text() for t in figure.axes[0].texts]
    boxes = [t for t in texts if "\n" in t]
    assert [box.splitlines()[0].split("_")[0] for box in boxes] == ["per", "numpy.sort"]
    assert "exp" in boxes[0]
    assert sum(t.startswith("result") for t in texts) == 1
    assert any(nbytes_text(X.nbytes) in t for t in texts)


def test_picture_of_plain_numpy(tmp_path):
    with pytest.warns(numstax.NumstaxWarning):
        explained = numstax.explain(lambda x: x * float(f"{x.sum()}"), X)
    with pytest.raises(ValueError, match="formatting"):
        explained.plot(tmp_path / "graph.png")
