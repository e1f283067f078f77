"""Configuration spaces (Definition 9.2): a finite set of values for each of a few parameters.

Nothing enters but the sets; a `Space` leaves, which gives its points, random ones, and the neighbours of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod

from numstax.records import record

Config = tuple[int, ...]
"""A point: a value for each parameter, in order."""


@record
class Space:
    """The product of the parameters' values; those are in ascending order."""

    parameters: tuple[tuple[str, tuple[int, ...]], ...]

    def __contains__(self, config: Config) -> bool:
        return all(value in values for value, (_, values) in zip(config, self.parameters, strict=True))

    @property
    def size(self) -> int:
        return prod(len(values) for _, values in self.parameters)

    def points(self) -> Iterator[Config]:
        """All of them."""
        return product(*(values for _, values in self.parameters))

    def draw(self, below: Callable[[int], int]) -> Config:
        """A random point; `below` gives an integer from 0 up to a limit."""
        return tuple(values[below(len(values))] for _, values in self.parameters)

    def neighbours(self, config: Config, parameter: int) -> Iterator[Config]:
        """The next value of one parameter, and the one before: twice and half of it, where values are powers of two."""
        values = self.parameters[parameter][1]
        place = values.index(config[parameter])
        for other in (place + 1, place - 1):
            if 0 <= other < len(values):
                yield (*config[:parameter], values[other], *config[parameter + 1 :])

    def around(self, config: Config) -> list[Config]:
        """A point and all of its neighbours."""
        return [config, *(near for k in range(len(config)) for near in self.neighbours(config, k))]

    def describe(self, config: Config) -> str:
        return " ".join(f"{name}={value}" for (name, _), value in zip(self.parameters, config, strict=True))
