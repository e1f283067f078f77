"""The search algorithms of section 9.6 on synthetic costs, and the records they leave."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import ceil, inf, isinf, log
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numstax.runtime.tune import Costs, descend, halve, sample, samples, search, select
from numstax.runtime.tune_records import Records
from numstax.tiles.space import Config, Space

SPACES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(
    lambda counts: Space(tuple((f"p{k}", tuple(1 << e for e in range(n))) for k, n in enumerate(counts)))
)


@st.composite
def landscapes(draw: st.DrawFn) -> tuple[Space, dict[Config, float]]:
    """A space and what each point costs; some are impossible."""
    space = draw(SPACES)
    cost = st.one_of(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.just(inf))
    return space, {point: draw(cost) for point in space.points()}


def measured(table: dict[Config, float], calls: list[Config] | None = None) -> Costs:
    def measure(config: Config, effort: int) -> float:
        if calls is not None:
            calls.append(config)
        return table[config]

    return Costs(measure)


@given(landscapes(), st.integers(0, 63), st.floats(1e-3, 0.5))
def test_coordinate_descent(landscape: tuple[Space, dict[Config, float]], start: int, epsilon: float) -> None:
    """Proposition 9.2: acceptances are bounded, and no neighbour of the end is faster by epsilon."""
    space, table = landscape
    here = list(space.points())[start % space.size]
    if isinf(table[here]):
        table[here] = 1e3
    found = descend(here, space, measured(table), epsilon)
    least = min(table.values())
    bound = ceil(log(table[here] / least) / -log(1 - epsilon) * (1 + 1e-9))
    assert found.accepted <= min(space.size, bound)
    end = found.best.config
    for parameter in range(len(end)):
        for near in space.neighbours(end, parameter):
            assert table[near] >= (1 - epsilon) * table[end]
    assert table[end] <= table[here]


@given(landscapes(), st.floats(0.02, 1.0), st.integers(0, 1 << 30))
@settings(deadline=None)
def test_random_search_reaches_its_quantile(
    landscape: tuple[Space, dict[Config, float]], quantile: float, seed: int
) -> None:
    """Proposition 9.3: what is found is in G_q whenever a sample is, and that happens as often as it says."""
    space, table = landscape
    limit = sorted(table.values())[ceil(quantile * space.size) - 1]
    good = {config for config, cost in table.items() if cost <= limit}
    random, count, runs = Random(seed), 3, 200
    hits = 0
    for _ in range(runs):
        drawn = sample(space, count, random)
        best = select(drawn, measured(table)).best.config if len(set(drawn)) > 1 else drawn[0]
        assert (best in good) == any(config in good for config in drawn)
        hits += best in good
    expected = 1 - (1 - quantile) ** count
    assert hits / runs >= expected - 5 * (expected * (1 - expected) / runs) ** 0.5 - 1e-9


@given(st.floats(0.01, 0.9), st.floats(0.01, 0.9))
def test_how_many_samples(quantile: float, risk: float) -> None:
    assert (1 - quantile) ** samples(quantile, risk) <= risk
    assert samples(0.05, 0.05) == 60


@given(landscapes())
def test_halving_keeps_the_fastest(landscape: tuple[Space, dict[Config, float]]) -> None:
    """Where costs do not vary, the half that is dropped never holds the best."""
    space, table = landscape
    efforts: dict[Config, int] = {}

    def measure(config: Config, effort: int) -> float:
        efforts[config] = efforts.get(config, 0) + effort
        return table[config]

    found = halve(list(space.points()), Costs(measure))
    assert found.best.seconds == min(table.values())
    assert sum(efforts.values()) <= 2 * space.size * max(1, space.size.bit_length())


def test_halving_spends_more_on_the_better_half() -> None:
    space = Space((("p", tuple(range(8))),))
    efforts: list[tuple[Config, int]] = []

    def measure(config: Config, effort: int) -> float:
        efforts.append((config, effort))
        return float(config[0] + 1)

    assert halve(list(space.points()), Costs(measure)).best.config == (0,)
    assert [len([e for e in efforts if e[1] == effort]) for effort in (1, 2, 4, 8)] == [8, 4, 2, 1]


def test_a_single_candidate_is_not_measured() -> None:
    calls: list[Config] = []
    assert select([(4,)], measured({}, calls)).best.config == (4,)
    assert not calls


def test_what_spills_is_never_chosen() -> None:
    """Algorithm 9.1, line 4."""
    table = {(1,): inf, (2,): 3.0, (4,): inf, (8,): 2.0}
    assert select(list(table), measured(table)).best.config == (8,)
    assert isinf(select([(1,), (4,)], measured(table)).best.seconds)


def test_every_point_is_measured_once() -> None:
    space = Space((("p", (1, 2, 4, 8)), ("q", (1, 2, 4))))
    table = {point: abs(point[0] - 4) + abs(point[1] - 2) + 1.0 for point in space.points()}
    calls: list[Config] = []
    found = search("coordinate", space, space.around((1, 1)), measured(table, calls))
    assert found.best.config == (4, 2)
    assert len(calls) == len(set(calls)) == len(found.trials)


@pytest.mark.parametrize("method", ["default", "coordinate", "random"])
def test_methods(method: str) -> None:
    """No method ends with something slower than where it began; the default measures six points at most."""
    space = Space(tuple((name, (1, 2, 4, 8, 16)) for name in "pqr"))
    random = Random(3)
    table = {point: random.random() for point in space.points()}
    start = (4, 4, 4)
    found = search(method, space, space.around(start), measured(table))
    assert found.best.seconds <= table[start]
    assert found.best.seconds == min(trial.seconds for trial in found.trials)
    assert len(found.trials) <= {"default": 6, "coordinate": 125, "random": 66}[method]


def test_small_spaces_are_measured_whole() -> None:
    space = Space((("p", (1, 2, 4)), ("q", (1, 2))))
    table = {point: float(point[0] * 10 + point[1]) for point in space.points()}
    found = search("random", space, [(4, 2)], measured(table))
    assert found.best.config == (1, 1)
    assert len(found.trials) == 6


def test_an_unknown_method() -> None:
    with pytest.raises(ValueError, match="default, coordinate, random"):
        search("annealing", Space((("p", (1,)),)), [(1,)], measured({(1,): 1.0}))


def test_what_comes_next_is_prepared_together() -> None:
    space = Space((("p", (1, 2, 4)), ("q", (1, 2, 4))))
    prepared: list[list[Config]] = []
    costs = Costs(lambda config, effort: float(sum(config)), lambda configs: prepared.append(list(configs)))
    search("coordinate", space, space.around((2, 2)), costs)
    assert prepared[0] == [(2, 2), (4, 2), (1, 2), (2, 4), (2, 1)]
    assert sum(map(len, prepared)) == len({config for batch in prepared for config in batch})


# --- records ------------------------------------------------------------------------------------------


def written(tmp_path: Path, device: str = "gpu", version: str = "1") -> tuple[Records, str]:
    records = Records(tmp_path, device, version)
    key = records.key("text", "space")
    records.write(key, "poi_add", (4, 2), 1e-3, 9)
    return records, key


def test_records(tmp_path: Path) -> None:
    records, key = written(tmp_path)
    found = records.read(key)
    assert found is not None
    assert (found.name, found.config, found.seconds, found.trials) == ("poi_add", (4, 2), 1e-3, 9)
    assert records.read(records.key("other text", "space")) is None
    assert [made.name for made in records.all()] == ["poi_add"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda found: "",
        lambda found: json.dumps(found)[:-5],
        lambda found: json.dumps([found]),
        lambda found: json.dumps({**found, "config": "four"}),
        lambda found: json.dumps({**found, "more": 1}),
        lambda found: json.dumps({k: v for k, v in found.items() if k != "seconds"}),
        lambda found: json.dumps({**found, "device": "another"}),
        lambda found: json.dumps({**found, "version": "0"}),
    ],
)
def test_damaged_and_foreign_records_are_absent(tmp_path: Path, damage: Callable[[dict], str]) -> None:
    records, key = written(tmp_path)
    path = next(tmp_path.glob("tuned/*.json"))
    path.write_text(damage(json.loads(path.read_text())))
    assert records.read(key) is None
    records.write(key, "poi_add", (8, 2), 1e-3, 9)
    again = records.read(key)
    assert again is not None
    assert again.config == (8, 2)


def test_another_device_has_records_of_its_own(tmp_path: Path) -> None:
    records, key = written(tmp_path)
    other, other_key = written(tmp_path, device="another")
    assert key != other_key
    assert records.read(key) is not None
    assert other.read(key) is None


def test_nowhere_to_keep_records(tmp_path: Path) -> None:
    nowhere = Records(None, "gpu", "1")
    nowhere.write("key", "poi_add", (1,), 1.0, 1)
    assert nowhere.read("key") is None
    assert not list(nowhere.all())
    occupied = tmp_path / "file"
    occupied.write_text("")
    blocked = Records(occupied, "gpu", "1")
    blocked.write("key", "poi_add", (1,), 1.0, 1)
    assert blocked.read("key") is None
