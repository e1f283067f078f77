"""Atoms: the matrix instructions of GPUs, with the owner of every element stated as data.

Nothing enters; `ATOMS` leaves, a frozen row for each instruction that tiles are made of.  The shape of an instruction
does not tell which thread holds which element (paper, section 3.1: mfma's result is transposed against what its
shape suggests), so each row carries a `Fragment` for A (m, k), B (k, n) and the accumulator C (m, n): PTX ISA,
"Warp-level matrix instructions" and "Asynchronous warpgroup-level matrix instructions"; AMD CDNA ISA, "MFMA".
"""

from __future__ import annotations

from math import prod

from numstax.records import record

Digit = tuple[int, int, int]
"""A count, and how many rows and columns further each step of it is."""
FORMATS = {"f64": 8, "f32": 4, "tf32": 4, "bf16": 2, "f16": 2, "f8e4m3": 1, "f8e5m2": 1, "i8": 1, "u8": 1}
"""What operands may be, and the bytes of one: names of dtypes, and tf32, the upper 19 bits of a float32."""
ACCUMULATORS = {"f32": 4, "f64": 8, "i32": 4}


@record
class Fragment:
    """Where the elements of a matrix are that a team of threads holds together.

    lanes, registers : the number of a thread, and of an element among those it holds, in mixed radix, the digit that
        changes fastest first.  A position is the sum of all steps.  Packed elements count one by one, the lowest bits
        first.  A digit with steps of zero means that threads hold copies.
    """

    lanes: tuple[Digit, ...]
    registers: tuple[Digit, ...] = ()

    @property
    def threads(self) -> int:
        return prod(count for count, _, _ in self.lanes)

    @property
    def size(self) -> int:
        """Elements in one thread."""
        return prod(count for count, _, _ in self.registers)

    @property
    def shape(self) -> tuple[int, int]:
        digits = (*self.lanes, *self.registers)
        rows, columns = (1 + sum((d[0] - 1) * d[axis] for d in digits) for axis in (1, 2))
        return rows, columns

    @property
    def copies(self) -> float:
        """Threads that hold the same element."""
        rows, columns = self.shape
        return self.threads * self.size / (rows * columns)

    def position(self, lane: int, register: int) -> tuple[int, int]:
        """Row and column of an element."""
        row = column = 0
        for number, digits in ((lane, self.lanes), (register, self.registers)):
            for count, rows, columns in digits:
                number, step = divmod(number, count)
                row, column = row + step * rows, column + step * columns
        return row, column

    def positions(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """`position` of every element, thread by thread."""
        return tuple(tuple(self.position(t, r) for r in range(self.size)) for t in range(self.threads))


@record
class Atom:
    """One matrix instruction: C (m, n) += A (m, k) B (k, n).

    family : 'mfma', 'mma' (mma.sync), 'wgmma', or 'fma': what the threads of a warp do with one multiplication each.
    operand, accumulator : formats of A and B, and of C.
    threads : that execute it together.
    b : None where the instruction reads B from shared memory, and A too if told so.
    """

    family: str
    m: int
    n: int
    k: int
    operand: str
    accumulator: str
    c: Fragment
    a: Fragment
    b: Fragment | None

    def __post_init__(self) -> None:
        if self.operand not in FORMATS or self.accumulator not in ACCUMULATORS:
            raise ValueError(f"Atom of an unknown format: {self}")
        for fragment, shape in ((self.a, (self.m, self.k)), (self.b, (self.k, self.n)), (self.c, (self.m, self.n))):
            if fragment is not None and (fragment.shape != shape or fragment.threads != self.threads):
                raise ValueError(f"Atom with a fragment of another shape: {self}")
        if self.threads * self.c.size != self.m * self.n:
            raise ValueError(f"Atom whose accumulators have no single owner: {self}")

    @property
    def threads(self) -> int:
        return self.c.threads

    @property
    def name(self) -> str:
        """``mma m16n8k16 bf16``."""
        return f"{self.family} m{self.m}n{self.n}k{self.k} {self.operand}"

    @property
    def itemsize(self) -> int:
        return FORMATS[self.operand]


_ACROSS: tuple[Digit, ...] = ((4, 0, 2), (8, 1, 0))
"""Lanes of mma's accumulators: quads along a row, two elements each, and eight rows."""
_PAIR: Digit = (2, 0, 1)
_HALF: Digit = (2, 8, 0)
"""The same position eight rows below."""
_MMA_C = Fragment(_ACROSS, (_PAIR, _HALF))


def _mma(k: int, operand: str, accumulator: str = "f32") -> Atom:
    """mma.sync m16n8: a quad of lanes holds 32-bit words of a row of A, or of a column of B."""
    inside, further = _words(k, operand)
    packed = 4 // FORMATS[operand]
    a = Fragment(((4, 0, packed), (8, 1, 0)), (*inside, _HALF, *further))
    b = Fragment(((4, packed, 0), (8, 0, 1)), tuple((count, step, 0) for count, _, step in (*inside, *further)))
    return Atom("mma", 16, 8, k, operand, accumulator, _MMA_C, a, b)


def _wgmma(n: int, operand: str, accumulator: str = "f32") -> Atom:
    """wgmma m64: four warps one below another, each as in mma.  B is in shared memory, A too or in registers."""
    k = 32 // FORMATS[operand]
    inside, further = _words(k, operand)
    c = Fragment((*_ACROSS, (4, 16, 0)), (_PAIR, _HALF, (n // 8, 0, 8)))
    a = Fragment(((4, 0, 4 // FORMATS[operand]), (8, 1, 0), (4, 16, 0)), (*inside, _HALF, *further))
    return Atom("wgmma", 64, n, k, operand, accumulator, c, a, None)


def _words(k: int, operand: str) -> tuple[tuple[Digit, ...], tuple[Digit, ...]]:
    """Along k: the elements packed in a word, and the words that one thread has."""
    packed = 4 // FORMATS[operand]
    inside, further = (packed, 0, 1), (k // (4 * packed), 0, 4 * packed)
    return tuple(d for d in (inside,) if d[0] > 1), tuple(d for d in (further,) if d[0] > 1)


def _fma(operand: str) -> Atom:
    """One multiplication in each thread of a warp: four threads along a row have the same element of A, eight down a
    column the same of B."""
    c = Fragment(((4, 0, 1), (8, 1, 0)))
    return Atom("fma", 8, 4, 1, operand, operand, c, Fragment(((4, 0, 0), (8, 1, 0))), Fragment(((4, 0, 1), (8, 0, 0))))


WGMMA_N = (32, 64, 128, 256)
"""Widths of wgmma that tiles are made of; the instruction has every multiple of eight."""
ATOMS = (
    # v_mfma_f32_16x16x4_f32: a thread holds four rows of one column of C, not four columns of a row
    Atom(
        "mfma", 16, 16, 4, "f32", "f32",
        c=Fragment(((16, 0, 1), (4, 4, 0)), ((4, 1, 0),)),
        a=Fragment(((16, 1, 0), (4, 0, 1))),
        b=Fragment(((16, 0, 1), (4, 1, 0))),
    ),
    *(_mma(k, operand) for operand in ("bf16", "f16") for k in (8, 16)),
    *(_mma(k, "tf32") for k in (4, 8)),
    *(_mma(32, operand) for operand in ("f8e4m3", "f8e5m2")),
    *(_mma(k, operand, "i32") for operand in ("i8", "u8") for k in (16, 32)),
    # mma.sync m8n8k4
    Atom(
        "mma", 8, 8, 4, "f64", "f64",
        c=Fragment(_ACROSS, (_PAIR,)),
        a=Fragment(((4, 0, 1), (8, 1, 0))),
        b=Fragment(((4, 1, 0), (8, 0, 1))),
    ),
    *(_wgmma(n, operand) for operand in ("bf16", "f16", "tf32", "f8e4m3", "f8e5m2") for n in WGMMA_N),
    *(_wgmma(n, operand, "i32") for operand in ("i8", "u8") for n in WGMMA_N),
    *(_fma(operand) for operand in ("f32", "f64")),
)  # fmt: skip
