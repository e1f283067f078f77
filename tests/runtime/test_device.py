"""device, device_host, interop: a GPU as the driver shows it, with a driver that runs kernels in the interpreter."""

import gc
import sys
from dataclasses import replace

import numpy as np
import pytest

import numstax
from numstax.dtypes import BFLOAT16, COMPLEX64, FLOAT16, FLOAT32, FLOAT64, INT8, INT64
from numstax.errors import DeviceError, DeviceMemoryError, OutOfBoundsError
from numstax.knobs import Knobs
from numstax.program import Allocate, Argument, Call, Instruction, Param, Plan, Program, Release, Result
from numstax.runtime import device as device_module
from numstax.runtime import dlpack, driver
from numstax.runtime.arrays import DeviceArray
from numstax.runtime.device import Device, describe_gpus, gpu_of
from numstax.runtime.device_host import DeviceHost
from numstax.runtime.interop import OWN, family_of
from numstax.runtime.launch import launcher
from numstax.runtime.memory import address_of
from numstax.runtime.wrapper_device import Exchange
from tests.fake_cuda import FakeDriver

THREAD = Instruction("thread_x", "llvm.nvvm.read.ptx.sreg.tid.x", ("i32",), model=lambda lanes: lanes.thread)
BLOCK = Instruction("block_x", "llvm.nvvm.read.ptx.sreg.ctaid.x", ("i32",), model=lambda lanes: lanes.block[0])
AT = "    i = int64(block_x())*32 + int64(thread_x())\n    if i < n:\n"
X, OUT, N = Param("x", "pointer", FLOAT32), Param("out", "pointer", FLOAT32), Param("n", "size")


def program(name, body, params, **facts):
    text = f"def {name}({', '.join(p.name for p in params)}):\n{body}"
    facts = {"grid": ("(n + 31)//32",), **facts}
    return Program(name, "sm_90a", text, name, params, intrinsics=(THREAD, BLOCK), block=32, **facts)


TWICE = program("twice", f"{AT}        out[i] = x[i] + x[i]\n", (X, OUT, N))


@pytest.fixture
def host(api):
    return DeviceHost(Knobs(cache=False), device_module.device(0))


def plan(n="300", dtype=FLOAT32, results=(Result("y"),), steps=None, programs=(TWICE,)):
    steps = steps or (Allocate("y", dtype, (n,)), Call("twice", ("x0", "y", n)))
    return Plan("p", (Argument("x0", "array", dtype, (n,), ("1",)),), programs, steps, results)


def run(host, made, *args, families=(None,), results=None, written=()):
    arrays = [a.name for a in made.arguments if a.kind == "array"]
    exchange = Exchange(tuple(zip(arrays, families, strict=True)), results, frozenset(written))
    launch = launcher(made, host.serving(exchange, made))
    return launch.call(*args), launch.source


def test_the_row_of_a_device(api):
    gpu = gpu_of(api, 0)
    assert (gpu.name, gpu.target, gpu.sms) == ("Imaginary H200", "sm_90a", 132)
    assert 4.8e12 < gpu.bandwidth < 5e12


def test_what_info_says():
    one = "Imaginary H200, sm_90a, 132 SMs, 2 GiB, 50 MiB of cache"
    assert list(describe_gpus(FakeDriver(total=1 << 31, devices=2))) == [one, one]


@pytest.mark.parametrize(("major", "minor", "target"), [(8, 0, "sm_80"), (8, 9, "sm_89"), (10, 0, "sm_100a")])
def test_targets(major, minor, target):
    api = FakeDriver(COMPUTE_CAPABILITY_MAJOR=major, COMPUTE_CAPABILITY_MINOR=minor)
    assert Device(api).gpu.target == target


def test_an_old_gpu_is_refused():
    with pytest.raises(DeviceError, match=r"capability 7\.5; 8\.0 or newer"):
        Device(FakeDriver(COMPUTE_CAPABILITY_MAJOR=7, COMPUTE_CAPABILITY_MINOR=5))


def test_a_device_that_is_not_there():
    with pytest.raises(DeviceError, match=r"no device cuda:3\n  remedy: this machine has 2"):
        Device(FakeDriver(devices=2), 3)


def test_no_driver(monkeypatch):
    class Bindings(FakeDriver):
        def cuInit(self, flags):
            raise RuntimeError("libcuda.so.1 was not found")

    driver.start.cache_clear()
    monkeypatch.setattr(driver.importlib, "import_module", lambda name: Bindings())
    with pytest.raises(DeviceError, match="no NVIDIA driver"):
        driver.start()
    monkeypatch.setattr(driver.importlib, "import_module", lambda name: FakeDriver(devices=0))
    with pytest.raises(DeviceError, match="finds no GPU"):
        driver.start()


def test_no_bindings(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    driver.start.cache_clear()
    monkeypatch.setattr(driver.importlib, "import_module", missing)
    with pytest.raises(DeviceError, match="cuda-python cannot be imported"):
        driver.start()


def test_arrays_of_numpy_are_copied(host):
    x = np.arange(300, dtype=np.float32)
    (y,), source = run(host, plan(), x)
    np.testing.assert_array_equal(y, x + x)
    assert "upload(x0" in source


@pytest.mark.parametrize("n", [0, 1, 300])
def test_sizes_of_the_call(host, n):
    made = Plan(
        "p",
        (Argument("x0", "array", FLOAT32, ("s0",), ("1",)),),
        (TWICE,),
        (Allocate("y", FLOAT32, ("s0",)), Call("twice", ("x0", "y", "s0"))),
        (Result("y"),),
        sizes=(("s0", "x0.shape[0]"),),
    )
    x = np.arange(n, dtype=np.float32)
    (y,), _ = run(host, made, x)
    np.testing.assert_array_equal(y, x + x)
    assert len(host.device.api.launched) == (n > 0)


def test_own_arrays_stay_on_the_device(host, api):
    x = numstax.to_device(np.arange(300, dtype=np.float32))
    api.calls.clear()
    (y,), source = run(host, plan(), x, families=(OWN,), results=OWN)
    assert isinstance(y, DeviceArray)
    assert not [c for c in api.calls if "cpy" in c or "Synchronize" in c]
    assert "upload" not in source
    np.testing.assert_array_equal(np.asarray(y), 2 * np.arange(300))


def test_scalars_of_every_kind(host):
    body = "    if thread_x() == 0:\n" + "".join(
        f"        out[{k}] = {value}\n"
        for k, value in enumerate(["i", "b", "h", "f", "d", "z.real", "z.imag", "n", "m"])
    )
    scalars = [Param("i", "scalar", INT64), Param("b", "scalar", INT8), Param("h", "scalar", FLOAT16)]
    scalars += [Param("f", "scalar", FLOAT32), Param("d", "scalar", FLOAT64), Param("z", "scalar", COMPLEX64)]
    sizes = [Param("n", "size"), Param("m", "size32")]
    made = program("all", body, (Param("out", "pointer", FLOAT64), *scalars, *sizes), grid=("1",))
    arguments = tuple(Argument(p.name, "scalar", p.dtype) for p in scalars)
    names = tuple(p.name for p in scalars)
    steps = (Allocate("y", FLOAT64, ("9",)), Call("all", ("y", *names, "1 << 40", "6*7")))
    whole = Plan("p", arguments, (made,), steps, (Result("y"),))
    (y,), _ = run(host, whole, -3, np.int8(-7), np.float16(0.5), 1.5, 2.5, np.complex64(1 - 2j), families=())
    assert y.tolist() == [-3, -7, 0x3800, 1.5, 2.5, 1, -2, 1 << 40, 42]


def test_an_index_out_of_bounds_is_reported(host):
    words = ((1, 17), (2, 1), (3, 12), (0, 1))
    body = "    if thread_x() == 3:\n" + "".join(f"        status[{k}] = {value}\n" for k, value in words)
    made = program("gather", body, (X, OUT, Param("status", "status")), grid=("1",))
    steps = (
        Allocate("y", FLOAT32, ("300",)),
        Call("gather", ("x0", "y"), (("index", "a.py:1"), ("index", "model.py:3, in f"))),
    )
    with pytest.raises(OutOfBoundsError, match=r"index 17 is out of bounds for axis with size 12\n  at model.py:3"):
        run(host, plan(steps=steps, programs=(made,)), np.zeros(300, np.float32))


def test_counters_are_zero_and_shared(host):
    body = "    if thread_x() == 0:\n        out[0] = counters[0] + counters[4]\n"
    made = program("count", body, (X, OUT, Param("counters", "counters")), grid=("1",), counters="5")
    steps = (Allocate("y", FLOAT32, ("1",)), Call("count", ("x0", "y")), Call("count", ("x0", "y")))
    (y,), _ = run(host, plan(steps=steps, programs=(made,)), np.zeros(300, np.float32))
    assert y.tolist() == [0]


def test_released_memory_is_used_again(host, api):
    steps = [Allocate("t0", FLOAT32, ("300",)), Call("twice", ("x0", "t0", "300"))]
    for k in range(6):
        new = Allocate(f"t{k + 1}", FLOAT32, ("300",))
        steps += [new, Call("twice", (f"t{k}", f"t{k + 1}", "300")), Release(f"t{k}")]
    made = plan(steps=tuple(steps), results=(Result("t6"),))
    x = np.arange(300, dtype=np.float32)
    (y,), _ = run(host, made, x)
    np.testing.assert_array_equal(y, x * 2**7)
    first = api.calls.count("cuMemAlloc")
    assert first <= 4
    run(host, made, x)
    assert api.calls.count("cuMemAlloc") == first


def test_memory_is_given_back(api):
    host = DeviceHost(Knobs(cache=False), device_module.device(0))
    run(host, plan(), np.zeros(300, np.float32))
    assert api.memory
    host.pools.all[0].trim()
    gc.collect()
    assert not api.memory


def test_a_full_gpu(host, api):
    big = str(24 << 20)
    kept = host.pools[0]((10 << 20,), FLOAT32)
    freed = host.pools[0]((40 << 20,), FLOAT32)
    del freed
    steps = (Allocate("t", FLOAT32, (big,)), Allocate("y", FLOAT32, ("1",)))
    run(host, plan(steps=steps), np.zeros(300, np.float32))
    steps = (Allocate("t", FLOAT32, (str(80 << 20),)), Allocate("y", FLOAT32, ("1",)))
    with pytest.raises(DeviceMemoryError, match=r"no room for 0.3. GB: 0... of 0.27 GB are free; .* in use, 0.0. GB"):
        run(host, plan(steps=steps), np.zeros(300, np.float32))
    assert kept.shape == (10 << 20,)


def test_dlpack_round_trip(api):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    array = numstax.to_device(x)
    assert array.__dlpack_device__() == (dlpack.CUDA, 0)
    capsule = array.__dlpack__(stream=-1)
    place = address_of(array.layout)
    del array
    seen = dlpack.imported(capsule)
    del capsule
    gc.collect()
    assert (seen.shape, seen.strides, seen.dtype, address_of(seen)) == (x.shape, x.strides, x.dtype, place)
    assert api.memory
    assert dlpack._exported
    del seen
    gc.collect()
    assert not dlpack._exported
    assert not api.memory


def test_a_capsule_that_nobody_took(api):
    numstax.to_device(np.zeros(3)).__dlpack__()
    gc.collect()
    assert not dlpack._exported
    assert not api.memory


def test_the_array_interface(api):
    array = numstax.to_device(np.zeros((2, 3), np.float64))
    shown = array.__cuda_array_interface__
    assert shown["data"] == (address_of(array.layout), False)
    assert (shown["shape"], shown["typestr"], shown["version"]) == ((2, 3), "<f8", 3)
    assert not hasattr(numstax.to_device(np.zeros(3, BFLOAT16)), "__cuda_array_interface__")


def test_device_arrays_describe_themselves(api):
    x = np.arange(6.0).reshape(2, 3)
    array = numstax.to_device(x)
    assert repr(array) == "<DeviceArray of f64[2, 3] on cuda:0>"
    assert (array.ndim, array.size, array.nbytes, len(array), array.strides) == (2, 6, 48, 2, (24, 8))
    np.testing.assert_array_equal(array, x)
    np.testing.assert_array_equal(array.numpy(), x)
    assert float(numstax.to_device(np.float32(2.5))) == 2.5
    assert np.asarray(array, np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copied"):
        np.asarray(array, copy=False)


class Speaks:
    """An array that shows its memory through one protocol alone."""

    def __init__(self, array):
        self.array = array


class Interface(Speaks):
    @property
    def __cuda_array_interface__(self):
        return self.array.__cuda_array_interface__


class Capsules(Speaks):
    def __dlpack__(self, *, stream=None):
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("kind", [lambda a: a, Interface, Capsules])
def test_jit_takes_arrays_where_they_are(api, kind):
    doubled = numstax.jit(lambda x: x * 2 + 1, strict=True)
    x = np.arange(1000, dtype=np.float32).reshape(10, 100)
    for _ in range(2):
        y = doubled(kind(numstax.to_device(x)))
        assert isinstance(y, DeviceArray)
        np.testing.assert_array_equal(np.asarray(y), x * 2 + 1)
    assert doubled.compile_count == 1
    doubled(kind(numstax.to_device(x[:5])))
    assert doubled.compile_count == 2
    np.testing.assert_array_equal(doubled(x), x * 2 + 1)
    assert doubled.compile_count == 3


def test_jit_writes_to_arrays_where_they_are(api):
    def add(x, y):
        x += y
        return x

    x, y = (numstax.to_device(np.full(100, v, np.float32)) for v in (1, 2))
    compiled = numstax.jit(add, strict=True)
    assert compiled(x, y) is x
    np.testing.assert_array_equal(np.asarray(x), np.full(100, 3))
    with pytest.raises(DeviceError, match="share memory"):
        compiled(x, x)
    with pytest.raises(TypeError, match="written to"):
        compiled(Capsules(x), y)


class Stream:
    def __cuda_stream__(self):
        return 0, 77


def test_calls_work_in_the_stream_of_their_arrays(api):
    x, y = numstax.to_device(np.ones(100, np.float32), stream=Stream()), numstax.to_device(np.ones(100, np.float32))
    assert (x.stream, y.stream) == (77, 0)
    api.calls.clear()
    z = numstax.jit(lambda x, y: x + y, strict=True)(x, y)
    assert z.stream == 77
    assert api.launched[-1][1] == 77
    assert api.calls.count("cuStreamWaitEvent") == 1
    np.testing.assert_array_equal(np.asarray(z), np.full(100, 2))
    assert z.on(0).stream == 0


def test_constants_are_copied_once(api):
    function = numstax.jit(lambda x: x + np.hanning(100).astype(np.float32), strict=True)
    x = numstax.to_device(np.ones(100, np.float32), stream=Stream())
    function(x)
    api.calls.clear()
    np.testing.assert_array_equal(np.asarray(function(x)), np.hanning(100).astype(np.float32) + 1)
    assert api.calls.count("cuMemcpyHtoDAsync") == 0
    assert api.calls.count("cuStreamWaitEvent") == 0


def test_arrays_that_are_not_aligned_are_copied(api):
    whole = numstax.to_device(np.arange(101, dtype=np.float32))
    part = DeviceArray(whole.layout[1:], whole.device, 0)

    def scale(x):
        x *= 3
        return x.sum()

    (function := numstax.jit(lambda x: x + 1, strict=True))(whole)
    np.testing.assert_array_equal(np.asarray(function(part)), np.arange(1, 101) + 1)

    def triple(x):
        x *= 3

    numstax.jit(triple, strict=True)(part)
    np.testing.assert_array_equal(np.asarray(whole), np.arange(101) * [1, *[3] * 100])


def test_where_calls_run(api):
    x = np.ones(3, np.float32)
    there = numstax.to_device(x)
    with pytest.raises(TypeError, match="an argument is on a GPU"):
        numstax.jit(lambda x: x + 1, device="cpu")(there)
    with pytest.raises(TypeError, match="another device than cuda:1"):
        numstax.jit(lambda x: x + 1, device="cuda:1")(there)
    with pytest.raises(DeviceError, match="no device cuda:1"):
        numstax.jit(lambda x: x + 1, device="cuda:1")(x)
    with pytest.raises(ValueError, match="device must be"):
        numstax.jit(lambda x: x + 1, device="gpu")
    assert isinstance(numstax.jit(lambda x, y: x + y, device="cuda")(x, there), DeviceArray)


def test_a_whole_program_runs_on_the_gpu(api, monkeypatch):
    module = sys.modules["numstax.jit"]
    knobs, host = module.process()
    monkeypatch.setattr(module, "process", lambda: (replace(knobs, backend="cuda"), host))
    x, before = np.ones(3, np.float32), len(api.launched)
    np.testing.assert_array_equal(numstax.jit(lambda x: x + 1)(x), [2, 2, 2])
    assert len(api.launched) == before + 1
    np.testing.assert_array_equal(numstax.jit(lambda x: x + 1, device="cpu")(x), [2, 2, 2])
    assert len(api.launched) == before + 1


def test_what_is_an_array_on_a_gpu(api):
    for value in (3, 2.5, "x", None, np.zeros(3), np.float32(1), object(), [1]):
        assert family_of(value) is None
    assert family_of(numstax.to_device(np.zeros(3))) is OWN
