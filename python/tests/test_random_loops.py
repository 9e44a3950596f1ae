"""Random training loops are what they are said to be: the same each time, and parallel."""

# timeout_s: 300
from __future__ import annotations

import collections
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from random_loop_actions import KINDS  # noqa: E402
from random_loop_models import MODELS, OPTIMIZERS  # noqa: E402
from random_loop_values import READS, WRITES  # noqa: E402
from random_loops import (  # noqa: E402
    chosen_seeds,
    differences,
    is_available,
    make_loop,
    merge,
    run_plain,
    run_split,
    single_thread,
)

ALL = range(100)
LARGEST = 50.0  # of a value: what diverges shows rounding, and nothing else


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with single_thread():
        yield


@pytest.mark.parametrize("seed", ALL)
def test_is_well_defined(seed: int) -> None:
    """A loop is the same each time, and the mean of two parts' gradients is all it takes."""
    loop = make_loop(seed)
    if not is_available(loop):
        pytest.skip(f"{loop.optimizer} is not installed")
    plain = run_plain(seed)
    assert differences(plain, run_plain(seed), 0.0) == [], loop
    assert differences(plain, run_split(seed)) == [], loop
    assert max(float(each.abs().max()) for each in plain.values.values()) < LARGEST, loop


def test_all_kinds_occur() -> None:
    loops = [make_loop(seed) for seed in ALL]
    kinds = collections.Counter(action.kind for loop in loops for action in loop.actions)
    styles = collections.Counter(action.style for loop in loops for action in loop.actions)
    for names, found in (
        (KINDS, kinds),
        (READS, styles),
        (WRITES, styles),
        (OPTIMIZERS, collections.Counter(loop.optimizer for loop in loops)),
        (MODELS, collections.Counter(loop.model for loop in loops)),
    ):
        assert {name for name in names if found[name] < 2} == set()
    assert sum(len(loop.actions) for loop in loops) > 600


def test_differences_are_seen() -> None:
    plain, other = run_plain(0), run_plain(2)
    assert differences(plain, plain) == []
    assert differences(plain, other)
    values = {name: value.clone() for name, value in plain.values.items()}
    next(iter(values.values())).view(-1)[0] += 1e-11
    assert len(differences(plain, plain._replace(values=values))) == 1
    losses = [plain.losses[0] + 1e-11, *plain.losses[1:]]
    assert len(differences(plain, plain._replace(losses=losses))) == 1
    label, value = plain.notes[0]
    notes = [(label, value + 1e-11), *plain.notes[1:]]
    assert len(differences(plain, plain._replace(notes=notes))) == 1
    assert differences(plain, plain._replace(notes=plain.notes[1:]))
    assert differences(plain, plain._replace(settings=[]))
    assert merge([plain, plain]) == (plain, [])
    assert merge([plain, plain._replace(notes=notes)])[1]


def test_seeds() -> None:
    assert chosen_seeds("3:5") == [3, 4]
    assert chosen_seeds("7") == [7]
    assert chosen_seeds("read: weight/1:3") == ["read: weight/1", "read: weight/2"]
    assert {make_loop(seed).actions[0].kind for seed in chosen_seeds("each")} == set(KINDS)
    assert make_loop("bare/5") == make_loop(5)._replace(seed="bare/5", actions=())
