"""Plans that ranks follow in real training, as Python drives them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import pleach
from pleach import policy

MEBI = 1 << 20
LAYERS = [[4 * MEBI, 4096], [8 * MEBI, 4096], [], [16 * MEBI], [300, 20]]


def atoms_of(layers: list[list[int]], quantum: int = 16) -> list[int]:
    sizes = [size for layer in layers for size in layer]
    owners = [index for index, layer in enumerate(layers) for _ in layer]
    return policy.cut_atoms(sizes, owners, quantum, 2 * MEBI)


def profile_of(layers: list[list[int]]) -> policy.TrainingProfile:
    return policy.profile(layers, atoms_of(layers), 4, [1e-3] * len(layers), [2e-3] * len(layers))


COSTS = policy.AlphaBeta(4, alpha="15us", bandwidth="1GB/s")


def test_atoms_are_whole_quanta_of_one_buffer() -> None:
    sizes, quanta = [1000, 64, 7 * MEBI, 12], [8, 64, 48, 12]
    atoms = policy.cut_atoms(sizes, [0, 0, 1, 2], quanta, MEBI, buffers=[0, 0, 0, 1])
    assert sum(atoms) == sum(sizes)
    ends = {sum(atoms[: index + 1]) for index in range(len(atoms))}
    assert {1000, 1064, 1064 + 7 * MEBI} <= ends
    for end in ends - {1000, 1064, 1064 + 7 * MEBI, sum(sizes)}:
        assert (end - 1064) % 48 == 0
    assert policy.cut_atoms(sizes, [0, 0, 1, 2], quanta, 1 << 62) == sizes
    many = policy.cut_atoms([64] * 5000, list(range(5000)), 4)
    assert len(many) <= 1024
    assert sum(many) == 64 * 5000
    owners = policy.own_atoms([5, 4, 3, 3, 3], 2)
    assert sorted(
        sum(s for s, o in zip([5, 4, 3, 3, 3], owners, strict=True) if o == r) for r in (0, 1)
    ) in ([8, 10], [9, 9])


@pytest.mark.parametrize(
    ("sizes", "layers", "quanta", "what"),
    [
        ([0], [0], 1, "0"),
        ([4, 4], [1, 0], 1, "layer"),
        ([4], [0], 0, "0"),
        ([4, 4], [0], 1, "2 sizes, but 1 layers"),
    ],
)
def test_bad_tensors(sizes: list[int], layers: list[int], quanta: int, what: str) -> None:
    with pytest.raises(pleach.InvalidArgumentError, match=what):
        policy.cut_atoms(sizes, layers, quanta)


def test_bad_profiles_and_plans() -> None:
    with pytest.raises(pleach.InvalidArgumentError):
        policy.profile([[4]], [3], 2)
    with pytest.raises(pleach.InvalidArgumentError, match="times of 2"):
        policy.profile([[4]], [4], 2, [1.0, 2.0])
    for time_s in (-1.0, float("nan"), float("inf"), 1e300):
        with pytest.raises(pleach.InvalidArgumentError, match=r"forward_s: .* is no time"):
            policy.profile([[4]], [4], 2, [time_s])
    with pytest.raises(pleach.InvalidArgumentError, match="atom_bytes: -4 is"):
        policy.own_atoms([-4], 2)
    with pytest.raises(pleach.InvalidArgumentError, match=r"own_atoms: .*rank_count=2\.5"):
        policy.own_atoms([4], 2.5)  # type: ignore[arg-type]
    profile = policy.profile([[4], [4]], [4, 4], 2)
    good = policy.AtomCollective("all_reduce", 0, 2)
    policy.check_plan(profile, [good])
    for plan in (
        [],
        [good, good],
        [policy.AtomCollective("reduce_scatter", 0, 2)],
        [policy.AtomCollective("all_reduce", 0, 3)],
    ):
        with pytest.raises(pleach.InvalidArgumentError):
            policy.check_plan(profile, plan)
        with pytest.raises(pleach.InvalidArgumentError):
            policy.PlanReplay(profile, plan)
    with pytest.raises(pleach.InvalidArgumentError, match="channel_width"):
        policy.PlanReplay(profile, [good], 0)


def test_costs(tmp_path: Path) -> None:
    assert COSTS.time_ps("all_gather", 4000) == 3 * 15_000_000 + 3 * 1_000_000
    measured = policy.MeasuredCosts(4, [("all_reduce", 1000, 1e-3), ("all_reduce", 3000, 2e-3)])
    assert measured.time_ps("all_reduce", 2000) == 1_500_000_000
    assert not measured.has("all_gather")
    assert isinstance(measured, policy.CostModel)
    path = tmp_path / "costs.json"
    path.write_text(
        '{"format": "pleach-costs", "version": 1, "rank_count": 4, "points": ['
        '{"collective": "all_gather", "size_bytes": 1000, "time_s": 0.001}]}'
    )
    assert policy.MeasuredCosts.read(str(path)).has("all_gather")
    for call in (
        lambda: measured.time_ps("all_gather", 1),
        lambda: policy.MeasuredCosts(0, []),
        lambda: policy.MeasuredCosts(2, [("all_reduce", 0, 1.0)]),
        lambda: policy.MeasuredCosts.read(str(tmp_path / "none.json")),
        lambda: policy.AlphaBeta(4, alpha=-1, bandwidth=1),
        lambda: policy.AlphaBeta(4, alpha=1, bandwidth="0GB/s"),
    ):
        with pytest.raises(pleach.Error):
            call()


@pytest.mark.parametrize("spec", ["ddp", "wfbp", "dear", "dear,bucket=1MiB", "work_conserving"])
def test_settled_plans_are_legal_and_the_same_for_the_same(spec: str) -> None:
    profile = profile_of(LAYERS)
    settled = policy.settle_plan(spec, profile, COSTS)
    policy.check_plan(profile, settled.collectives)
    assert settled.iteration_s > 0
    assert settled == policy.settle_plan(spec, profile, COSTS)
    other = profile_of([[4 * MEBI, 4096], [8 * MEBI, 4080], [], [16 * MEBI], [300, 36]])
    assert settled.hash != policy.settle_plan(spec, other, COSTS).hash
    drive(profile, settled, 3, seed=1)


@pytest.mark.parametrize("spec", ["horovod", "fsdp", "lancet"])
def test_what_cannot_settle_is_named(spec: str) -> None:
    with pytest.raises(pleach.UnsupportedError, match=spec):
        policy.settle_plan(spec, profile_of(LAYERS), COSTS)
    with pytest.raises(pleach.InvalidArgumentError, match="dear"):
        policy.settle_plan("daer", profile_of(LAYERS), COSTS)


def drive(
    profile: policy.TrainingProfile, settled: policy.SettledPlan, iterations: int, seed: int
) -> None:
    """Follows a plan through some iterations, things landing in random order."""
    chance = random.Random(seed)
    replay = policy.PlanReplay(profile, settled.collectives, 2, settled.step_at_once)
    now, on_wire, started = 0, [], []

    def move(until_idle: bool) -> None:
        nonlocal now
        while True:
            now += 1
            fresh = replay.next(now)
            on_wire.extend(fresh)
            started.extend(fresh)
            assert len(on_wire) <= 2
            if not on_wire or (not until_idle and chance.random() < 0.5):
                return
            number = on_wire.pop(chance.randrange(len(on_wire)))
            replay.land(number, now)
            if settled.collectives[replay.index_of(number)].reduces:
                replay.update(number, now)

    for iteration in range(iterations):
        for layer in reversed(range(profile.layer_count)):
            replay.gradient_ready(layer, now)
            move(until_idle=False)
        move(until_idle=True)
        assert all(replay.may_run_forward(layer) for layer in range(profile.layer_count))
        expected = len(settled.collectives) * (iteration + 1)
        assert started == list(range(expected))
    log = replay.log()
    assert [one.number for one in log] == started
    assert {one.index for one in log} == set(range(len(settled.collectives)))
    assert all(one.ready_ps <= one.started_ps <= one.finished_ps for one in log)
    replay.forget_before(iterations - 1)
    assert len(replay.log()) == len(settled.collectives)


def test_misuse_of_a_replay_is_an_error_and_changes_nothing() -> None:
    profile = policy.profile([[4], [4]], [4, 4], 2)
    plan = [
        policy.AtomCollective("reduce_scatter", 1, 2),
        policy.AtomCollective("reduce_scatter", 0, 1),
        policy.AtomCollective("all_gather", 0, 2),
    ]
    replay = policy.PlanReplay(profile, plan)
    assert replay.next(0) == []
    replay.gradient_ready(1, 1)
    assert replay.next(2) == [0]
    for misuse in (
        lambda: replay.gradient_ready(1, 2),
        lambda: replay.gradient_ready(2, 2),
        lambda: replay.land(1, 2),
        lambda: replay.update(0, 2),
        lambda: replay.repeat(),
        lambda: replay.may_run_forward(2),
        lambda: replay.index_of(7),
    ):
        with pytest.raises(pleach.InvalidArgumentError):
            misuse()
    replay.land(0, 3)
    replay.repeat()
    assert replay.may_run_forward(1)
    replay.gradient_ready(1, 4)
    replay.gradient_ready(0, 4)
    assert replay.next(5) == [1, 2]
    assert not replay.may_run_forward(0)
    for number in (2, 1):
        replay.land(number, 6)
        replay.update(number, 6)
    assert replay.next(7) == [3]
    replay.stand_still(8)
    replay.go_on(10)
    replay.land(3, 11)
    assert replay.may_run_forward(0)
    assert replay.log()[-1].exposed_ps == 2


def test_tuner_settles_on_the_best() -> None:
    tuner = policy.BucketTuner("dear_bo,trials=6,first=25MiB", 3)
    assert tuner.size_bytes == 25 * MEBI
    changes = 0
    for _ in range(200):
        changes += tuner.observe(10**9 + abs(tuner.size_bytes - 10 * MEBI))
    assert tuner.settled
    assert 1 <= changes <= 6
    with pytest.raises(pleach.InvalidArgumentError, match="dear_bo"):
        policy.BucketTuner("dear", 0)
