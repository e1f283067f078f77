"""Draws of random numbers as programs of their own: NumPy's numbers, and the state that NumPy leaves.

Enters: an Extern that a program can do instead (`ir/draws.py`).  Leaves: a `Printed`.  The state of the generator is in
variables while the program runs.  What is computed from it is data (`emit/draws.py`); what needs a loop is here: points
of a ziggurat that are not certainly under the density are compared with it, by the functions of the C library, as in
NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from numstax import dtypes
from numstax.cpu_emit.programs import Printed, finish
from numstax.emit.naming import Names
from numstax.emit.text import Text
from numstax.emit.values import literal, zero
from numstax.emit.ziggurat import ziggurat
from numstax.ir.draws import FROM_TICKET, integer_range
from numstax.ir.graph import Literal
from numstax.ir.index import ONE, product
from numstax.ir.loops import Buffer, BufferView, Extern

WORK = 8
"""Elementary operations that a draw is worth."""


def print_draws(extern: Extern, buffers: Mapping[str, Buffer], used: Names) -> Printed:
    """They cannot be shared out: each takes the state that the one before it leaves."""
    sample, after = (buffers[name] for name in extern.results)
    text = Text(extern.writes())
    method, _, dtype = extern.draws.rpartition("_")
    draw = _Draw(text, dtypes.by_name(dtype), str(extern.args[-1]))
    if method == "integers":
        draw.choose_from(dict(extern.kwargs))
    source = (_Ticket if extern.function == FROM_TICKET else _State)(draw, extern, buffers)
    count = product(sample.shape)
    out, at = text.buffer(sample), text.fresh("k")
    with text.block(f"for {at} in range({text.index(count)})"):
        text.line(f"{out}[{at}] = {getattr(draw, method)()}")
    source.leave(text.buffer(after))
    total = count * WORK
    return Printed(finish(text, extern.draws, used, total), total, text.scratch, None, ONE)


class _Draw:
    """Prints a draw from a generator of this `form`.  Its variables: `low` and `high` half of the state, of what is
    added in each step, and the upper half of a word, `rest`, that is the next word of 32 bits where it is `held`."""

    def __init__(self, text: Text, dtype: np.dtype, form: str) -> None:
        self.text, self.dtype, self.name, self.form = text, dtype, dtypes.name(dtype), form
        self.halves = self.name != "f64"
        """Are words of 32 bits drawn?"""

    def step(self) -> str:
        """The next word of 64 bits."""
        text, form = self.text, self.form
        word = text.fresh("w")
        lines = [
            f"high = {form}_high(high, low, add_high, add_low)",
            f"low = {form}_low(low, add_low)",
            f"{word} = {form}_output(high, low)",
        ]
        if form == "pcg64dxsm":  # of the state before the step
            lines.insert(0, lines.pop())
        for line in lines:
            text.line(line)
        return word

    def word(self) -> str:
        """The next word that a float is made of."""
        if not self.halves:
            return self.step()
        text, word = self.text, self.text.fresh("half")
        with text.block("if held"):
            text.line(f"{word} = rest")
        with text.block("else"):
            whole = self.step()
            text.line(f"{word} = lower_word({whole})")
            text.line(f"rest = upper_word({whole})")
        text.line("held = not held")
        return word

    def choose_from(self, words: Mapping[str, object]) -> None:
        """Integers are drawn from this range."""
        found = integer_range(words, self.dtype)
        assert found is not None
        first, count = map(self.text.index, found)
        self.text.line(f"first, count = {first}, uint64({count})")

    def integers(self) -> str:
        """D. Lemire: Fast Random Integer Generation in an Interval, ACM Transactions on Modeling and Computer
        Simulation 29(1), 2019.  From a range of one no word is drawn."""
        text, x = self.text, self.text.assign("x", "first")
        with text.block("if count > 1"):
            product = text.assign("p", f"{self.word()}*count")
            with text.block(f"if lower_word({product}) < count"):
                least = text.assign("least", "(uint64(4294967296) - count) % count")
                with text.block(f"while lower_word({product}) < {least}"):
                    text.line(f"{product} = {self.word()}*count")
            text.line(f"{x} = first + int64(upper_word({product}))")
        return x

    def random(self) -> str:
        return f"unit_{self.name}({self.word()})"

    def standard_normal(self) -> str:
        x = self.text.assign("x", zero(self.dtype))
        with self.text.block("while True"):
            word = self._point("normal", x)
            with self.text.block(f"if normal_tail_{self.name}({word})"):
                self._normal_tail(x, word)
                self.text.line("break")
            wide = f"float64({x})"
            self._compare("normal", word, f"math.exp(-0.5*{wide}*{wide})")
        return x

    def standard_exponential(self) -> str:
        x = self.text.assign("x", zero(self.dtype))
        with self.text.block("while True"):
            word = self._point("exponential", x)
            with self.text.block(f"if exponential_tail_{self.name}({word})"):
                edge = literal(ziggurat("exponential", 8 * self.dtype.itemsize).edge, self.dtype)
                self.text.line(f"{x} = {edge} - {self._logarithm()}")
                self.text.line("break")
            self._compare("exponential", word, f"math.exp(-{x})")
        return x

    def _point(self, distribution: str, x: str) -> str:
        """A point, which is the number drawn if it is certainly under the density; its word."""
        text, word = self.text, self.word()
        text.line(f"{x} = {distribution}_point_{self.name}({word})")
        with text.block(f"if {distribution}_inside_{self.name}({word})"):
            text.line("break")
        return word

    def _compare(self, distribution: str, word: str, density: str) -> None:
        drop, height = (f"{distribution}_{name}_{self.name}({word})" for name in ("drop", "height"))
        with self.text.block(f"if {drop}*{self.random()} + {height} < {density}"):
            self.text.line("break")

    def _normal_tail(self, x: str, word: str) -> None:
        """G. Marsaglia: Generating a Variable from the Tail of the Normal Distribution, Technometrics 6, 1964."""
        edge = ziggurat("normal", 8 * self.dtype.itemsize).edge
        with self.text.block("while True"):
            a = self.text.assign("a", f"{literal(-1 / edge, self.dtype)}*{self._logarithm()}")
            b = self.text.assign("b", f"-{self._logarithm()}")
            with self.text.block(f"if {b} + {b} > {a}*{a}"):
                beyond = f"{literal(edge, self.dtype)} + {a}"
                self.text.line(f"{x} = -({beyond}) if normal_negative_{self.name}({word}) else {beyond}")
                self.text.line("break")

    def _logarithm(self) -> str:
        """Of 1 less a draw between 0 and 1."""
        return f"math.log1p(-{self.random()})"


class _Ticket:
    """The state is in the generator's memory; counts the draw."""

    def __init__(self, draw: _Draw, extern: Extern, buffers: Mapping[str, Buffer]) -> None:
        self.draw, text = draw, draw.text
        ticket, self.turn = (_number(text, value, buffers) for value in extern.args[:2])
        text.line(f"desk = words_at({ticket})")
        text.line("block = words_at(int64(desk[1]))")
        text.line("words = words_at(int64(block[0]))")
        text.line("low, high, add_low, add_high = words[0], words[1], words[2], words[3]")
        if draw.halves:
            text.line("held, rest = lower_word(block[1]) != 0, upper_word(block[1])")

    def leave(self, after: str) -> None:
        text = self.draw.text
        text.line("words[0], words[1] = low, high")
        if self.draw.halves:
            text.line("block[1] = joined_words(uint64(held), rest)")
        text.line(f"{after}[0] = {self.turn} + 1")


class _State:
    """The state is an array."""

    def __init__(self, draw: _Draw, extern: Extern, buffers: Mapping[str, Buffer]) -> None:
        self.draw, text = draw, draw.text
        (view, *_) = extern.args
        assert isinstance(view, BufferView)
        self.before = text.buffer(buffers[view.buffer])
        words = ", ".join(f"{self.before}[{k}]" for k in range(4))
        text.line(f"low, high, add_low, add_high = {words}")
        if draw.halves:
            text.line(f"held, rest = {self.before}[4] != 0, {self.before}[5]")

    def leave(self, after: str) -> None:
        kept = ("uint64(held)", "rest") if self.draw.halves else (f"{self.before}[4]", f"{self.before}[5]")
        for k, word in enumerate(("low", "high", "add_low", "add_high", *kept)):
            self.draw.text.line(f"{after}[{k}] = {word}")


def _number(text: Text, value: object, buffers: Mapping[str, Buffer]) -> str:
    """An argument of the library function that is one number."""
    if isinstance(value, Literal):
        return literal(value.value, value.dtype)
    assert isinstance(value, BufferView)
    buffer = buffers[value.buffer]
    name = text.buffer(buffer)
    return name if buffer.kind == "scalar" else f"{name}[0]"
