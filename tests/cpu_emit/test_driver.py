"""Loops as one program: scalars in registers, kernels and iterations shared out, errors with lines."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from numstax.errors import OutOfBoundsError
from numstax.ir.loops import EmittedControl, EmittedLoop
from numstax.knobs import Knobs
from numstax.pipeline import Region, build
from numstax.program import Program
from numstax.runtime.host import Host
from numstax.runtime.launch import launcher

SHARED = Knobs(parallel_threshold=1)
"""Whatever has work is worth sharing out."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    return Host(Knobs(cache_dir=tmp_path_factory.mktemp("cache"), threads=3, parallel_threshold=1))


class Loop:
    """A compiled function, run as often as wanted on fresh copies of its arguments."""

    def __init__(self, function: Callable[..., object], host: Host, *args: object, knobs: Knobs | None = None) -> None:
        self.function, self.args = function, args
        self.region: Region = build(function, args, knobs=knobs)
        assert self.region.plan is not None
        self.launch = launcher(self.region.plan, host)

    def check(self) -> Loop:
        """Results, and arguments afterwards, are those of NumPy."""
        ours, theirs = self._fresh(), self._fresh()
        results = self.launch.call(*(a for a in ours if not isinstance(a, int)))
        expected = self.function(*theirs)
        for a, b in zip((*results, *ours), (*([] if expected is None else [expected]), *theirs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        return self

    def _fresh(self) -> list[object]:
        return [a.copy() if isinstance(a, np.ndarray) else a for a in self.args]

    @property
    def loop(self) -> EmittedLoop:
        (found,) = (item for item in self.region.emitted if isinstance(item, EmittedLoop))
        return found

    @property
    def program(self) -> Program:
        return self.loop.emitted.program


def vector(n: int = 100) -> np.ndarray:
    return np.linspace(0.1, 1.9, n)


def square(n: int = 40) -> np.ndarray:
    return np.sin(np.arange(float(n * n))).reshape(n, n)


# --- single elements ------------------------------------------------------------------------------


def test_a_recurrence_is_a_plain_loop(host: Host) -> None:
    def smooth(a, b):
        for i in range(1, a.shape[0]):
            a[i] = 0.5 * a[i - 1] + b[i]

    ran = Loop(smooth, host, vector(), vector()).check()
    assert ran.loop.calls == ()
    assert {p.kind for p in ran.program.params} == {"pointer"}


def test_carried_values_are_registers(host: Host) -> None:
    def fibonacci(x, n):
        a, b = x[0], x[1]
        for _ in range(n):
            a, b = b, (a + b) % 1000007
        return np.asarray(a)

    text = Loop(fibonacci, host, np.array([0, 1]), 90).check().program.text
    inside = text[text.index("for ") :].splitlines()
    assert not any("[" in line for line in inside if line.startswith("        "))


def test_while_with_a_condition_on_elements(host: Host) -> None:
    def bisect(a, wanted):
        low, high = 0, a.shape[0] - 1
        while low < high:
            middle = (low + high) // 2
            if a[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        return np.asarray(low)

    for wanted in (0.05, 0.1, 1.0, 1.9, 2.0):
        ran = Loop(bisect, host, vector(), wanted).check()
        assert "while True:" in ran.program.text


def test_half_precision_and_bools_in_registers(host: Host) -> None:
    def mixed(a):
        flip, s = False, np.float16(0)
        for i in range(a.shape[0]):
            flip = not flip
            if flip:
                s = s + a[i]
        return np.asarray(s)

    Loop(mixed, host, vector(50).astype(np.float16)).check()


def test_the_bounds_of_an_inner_loop_may_be_data(host: Host) -> None:
    def multiply(data, index, start, x, y):
        for i in range(y.shape[0]):
            s = 0.0
            for k in range(start[i], start[i + 1]):
                s += data[k] * x[index[k]]
            y[i] = s

    start = np.cumsum(np.arange(41) % 4)
    index = np.arange(start[-1]) % 5
    ran = Loop(multiply, host, vector(start[-1]), index, start, vector(5), np.zeros(40), knobs=SHARED).check()
    assert ran.program.tasks == "40"


# --- errors ---------------------------------------------------------------------------------------


def test_an_index_out_of_bounds_ends_the_loop_and_names_the_line(host: Host) -> None:
    def chase(a, at):
        for _ in range(50):
            at = a[at]
        return np.asarray(at)

    links = (np.arange(20) + 7) % 20
    ran = Loop(chase, host, links, 3).check()
    links[9] = 99
    with pytest.raises(OutOfBoundsError, match=r"index 99 is out of bounds for axis with size 20\n.*in .*chase|body"):
        ran.launch.call(links)


def test_the_line_of_a_called_kernel_is_named_too(host: Host) -> None:
    def spread(a, index):
        total = np.zeros(a.shape[0])
        for i in range(20):
            total = total + a[index[i] + np.arange(a.shape[0])]
        return total

    ran = Loop(spread, host, vector(), np.zeros(20, np.int64)).check()
    assert ran.loop.calls
    with pytest.raises(OutOfBoundsError, match="index 100 is out of bounds for axis with size 100"):
        ran.launch.call(vector(), np.full(20, 1))


# --- kernels --------------------------------------------------------------------------------------


def heat(u, steps):
    for _ in range(steps):
        u[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] - 2.0 * u[1:-1, 1:-1])


@pytest.mark.parametrize("steps", [30, 31])
def test_kernels_of_a_time_loop_are_shared_out_from_inside(host: Host, steps: int) -> None:
    ran = Loop(heat, host, square(), steps, knobs=SHARED).check()
    assert "share_" in ran.program.text
    assert "team" in {p.kind for p in ran.program.params}


def test_small_kernels_are_called_by_one_thread(host: Host) -> None:
    ran = Loop(heat, host, square(), 30).check()
    assert "share_" not in ran.program.text
    assert "run_" in ran.program.text


def test_work_that_shrinks_is_shared_out_while_it_is_large(host: Host) -> None:
    def eliminate(a):
        for k in range(a.shape[0] - 1):
            a[k + 1 :, k:] -= a[k + 1 :, k : k + 1] / (3.0 + a[k, k]) * a[k : k + 1, k:]

    ran = Loop(eliminate, host, square(), knobs=Knobs(parallel_threshold=1 << 10)).check()
    assert "share_" in ran.program.text
    assert "run_" in ran.program.text


def test_temporaries_are_allocated_once_for_all_iterations(host: Host) -> None:
    def power(a, x):
        for _ in range(20):
            y = (a * x).sum(axis=1)
            x = y / np.abs(y).max()
        return x

    ran = Loop(power, host, square(), vector(40)).check()
    assert ran.loop.memory


def test_a_temporary_whose_size_shrinks_has_room_for_the_largest(host: Host) -> None:
    def triangle(a):
        s = 0.0
        for k in range(a.shape[0]):
            row = np.cumsum(a[k, k:])
            s = s + (row[::-1] * a[k, k:]).sum() + row.max()
        return np.asarray(s)

    ran = Loop(triangle, host, square()).check()
    (kernel,) = ran.loop.calls
    assert "-" in kernel.scratch
    assert ran.program.scratch == "320"


def test_a_library_function_inside_keeps_the_loop_on_the_host(host: Host) -> None:
    def steps(a, b):
        for _ in range(20):
            b = np.linalg.solve(a, b)
        return b

    ran = Loop(steps, host, np.eye(3) * 2.0, vector(3)).check()
    (control,) = (item for item in ran.region.emitted if isinstance(item, EmittedControl))
    (refusal,) = control.refusals
    assert "library function" in refusal.reason


# --- independent iterations -----------------------------------------------------------------------


def escape(xs, out):
    for i in range(out.shape[0]):
        for j in range(xs.shape[0]):
            z, n = 0.0, 0
            while n < 50 and z <= 4.0:
                z = z * z + xs[j] + 0.1 * i
                n += 1
            out[i, j] = n


def test_independent_iterations_are_tasks(host: Host) -> None:
    ran = Loop(escape, host, vector(30) - 1.5, np.zeros((20, 30)), knobs=SHARED).check()
    assert ran.program.tasks == "20"
    assert {"lo", "hi"} <= {p.kind for p in ran.program.params}


def test_the_value_of_the_last_iteration_stays(host: Host) -> None:
    def last(a, b):
        s = 0.0
        for i in range(a.shape[0]):
            s = a[i] * 2.0
            b[i] = s + 1.0
        return np.asarray(s)

    ran = Loop(last, host, vector(), vector(), knobs=SHARED).check()
    assert ran.program.tasks == "100"


def test_what_an_iteration_has_for_itself_is_private_to_its_thread(host: Host) -> None:
    def medians(a, out):
        for i in range(a.shape[0]):
            row = np.cumsum(a[i] * a[i])
            out[i] = row[-1] / (row[::-1] * a[i]).sum()

    ran = Loop(medians, host, square(80) + 2.0, np.zeros(80), knobs=SHARED).check()
    assert ran.program.tasks == "80"
    assert ran.program.scratch != "0"
    assert ran.loop.memory == ()


def test_an_independent_loop_inside_a_time_loop_is_shared_out(host: Host) -> None:
    def columns(a):
        for _ in range(a.shape[0]):
            for j in range(a.shape[1]):
                s = 0.0
                for i in range(a.shape[0]):
                    s = 0.5 * s + a[i, j]
                    a[i, j] = s

    ran = Loop(columns, host, square(), knobs=SHARED).check()
    assert "share_loop" in ran.program.text
    assert [p.tasks for p in ran.loop.calls] == ["40"]


# --- threads --------------------------------------------------------------------------------------


def test_several_threads_run_loops_at_once(host: Host) -> None:
    ran = Loop(heat, host, square(64), 200, knobs=SHARED).check()
    expected = square(64)
    heat(expected, 200)
    results: list[np.ndarray] = []

    def run() -> None:
        u = square(64)
        for _ in range(5):
            u = square(64)
            ran.launch.call(u)
        results.append(u)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-12)
