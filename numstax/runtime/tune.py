"""Search for the fastest configuration of a kernel (section 9.6).

A `Space`, points to begin with, and a function that measures a point enter; a `Search` leaves, with everything that was
measured.  A point that cannot be compiled, or whose registers spill, costs infinity.  The algorithms know nothing of
kernels: costs can be synthetic, and in the tests they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, inf, log
from random import Random

from numstax.knobs import TUNING
from numstax.records import record
from numstax.tiles.space import Config, Space

EPSILON = 1e-3
"""By how much a point must be faster to be accepted (Algorithm 9.2)."""
MOST_CANDIDATES = 6
QUANTILE, RISK = 0.05, 0.05
"""Random search finds one of the best 5%, with a probability of 95% (Proposition 9.3)."""


@record
class Trial:
    """One measurement, in seconds."""

    config: Config
    seconds: float


@record
class Search:
    """best : the fastest; trials : all points, in the order in which they were met first; accepted : by how many steps
    the search went on."""

    best: Trial
    trials: tuple[Trial, ...]
    accepted: int = 0


@record
class Tuned:
    """What was searched for a kernel, from what the formulas chose; without trials, what an earlier search found."""

    name: str
    space: Space
    start: Config
    search: Search

    def __str__(self) -> str:
        best, trials = self.search.best, self.search.trials
        known = {trial.config: trial.seconds for trial in trials}
        text = f"{self.name}: {self.space.describe(best.config)}"
        if best.seconds < inf:
            text += f", {best.seconds * 1e6:.1f} us"
        if not trials:
            return f"{text}, known from before" if best.seconds < inf else f"{text}, the only choice"
        ratio = known.get(self.start, inf) / best.seconds
        return f"{text}, {ratio:.2f} times as fast as the formula's; {len(trials)} of {self.space.size} measured"


class Costs:
    """What points cost, each measured once.

    measure : seconds of a point, given how many times the usual effort to spend on it.
    prepare : told which points will be measured next, so that they are compiled together.
    """

    def __init__(
        self,
        measure: Callable[[Config, int], float],
        prepare: Callable[[Sequence[Config]], None] = lambda configs: None,
        report: Callable[[Trial], None] = lambda trial: None,
    ) -> None:
        self._measure, self._prepare, self._report = measure, prepare, report
        self._known: dict[Config, tuple[float, int]] = {}

    def __call__(self, config: Config, effort: int = 1) -> float:
        seconds, spent = self._known.get(config, (inf, 0))
        if spent < effort and (seconds < inf or not spent):
            seconds = self._measure(config, effort)
            self._known[config] = seconds, effort
            self._report(Trial(config, seconds))
        return seconds

    def prepare(self, configs: Sequence[Config]) -> None:
        fresh = [config for config in dict.fromkeys(configs) if config not in self._known]
        if fresh:
            self._prepare(fresh)

    def found(self, best: Config, accepted: int = 0) -> Search:
        trials = tuple(Trial(config, seconds) for config, (seconds, _) in self._known.items())
        return Search(Trial(best, self(best)), trials, accepted)


def select(candidates: Sequence[Config], cost: Costs) -> Search:
    """Algorithm 9.1 without its records: the fastest of a few; a single one need not be measured.

    Should none be possible, the first stands, at infinity.
    """
    if len(candidates) == 1:
        return Search(Trial(candidates[0], inf), ())
    cost.prepare(candidates)
    return cost.found(min(candidates, key=cost))


def descend(start: Config, space: Space, cost: Costs, epsilon: float = EPSILON) -> Search:
    """Algorithm 9.2: one parameter after another goes up or down a value as long as that is faster by `epsilon`."""
    here, accepted, improved = start, 0, True
    while improved:
        improved = False
        for parameter in range(len(start)):
            near = list(space.neighbours(here, parameter))
            cost.prepare(near)
            for other in near:
                if cost(other) < (1 - epsilon) * cost(here):
                    here, accepted, improved = other, accepted + 1, True
    return cost.found(here, accepted)


def halve(configs: Sequence[Config], cost: Costs, effort: int = 1) -> Search:
    """Successive halving: all are measured with little effort, the faster half again with twice as much, and so on."""
    left = list(dict.fromkeys(configs))
    cost.prepare(left)
    while True:
        costs = {config: cost(config, effort) for config in left}
        left.sort(key=costs.__getitem__)
        if len(left) == 1:
            return cost.found(left[0])
        left, effort = left[: (len(left) + 1) // 2], 2 * effort


def samples(quantile: float = QUANTILE, risk: float = RISK) -> int:
    """Points to draw so that the fastest is among the best `quantile` with probability 1 - `risk` (Proposition 9.3)."""
    return ceil(log(1 / risk) / quantile)


def sample(space: Space, count: int, random: Random) -> list[Config]:
    """Points drawn uniformly and independently."""
    return [space.draw(random.randrange) for _ in range(count)]


def search(method: str, space: Space, candidates: Sequence[Config], cost: Costs, seed: int = 0) -> Search:
    """The fastest point that a method finds.

    'default' measures the candidates; 'coordinate' goes on from the best of them; 'random' takes the candidates
    and as many points as Proposition 9.3 asks for, or all where there are no more, and halves them successively.
    """
    few = candidates[:MOST_CANDIDATES]
    if method == "default":
        return select(few, cost)
    if method == "coordinate":
        return descend(select(few, cost).best.config, space, cost)
    if method == "random":
        many = space.size > samples()
        return halve([*few, *(sample(space, samples(), Random(seed)) if many else space.points())], cost)
    raise ValueError(f"the method is one of {', '.join(TUNING[1:])}, not {method!r}")
