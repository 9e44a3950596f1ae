# timeout_s: 400
from __future__ import annotations

import signal
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import backend_groups
from rank_pool import RankPool, shared_pool


@pytest.fixture(params=[2, 3], ids=lambda count: f"{count} ranks")
def pool(request: pytest.FixtureRequest) -> RankPool:
    return shared_pool(request.param, "pleach")


@pytest.mark.parametrize(
    "what",
    [
        backend_groups.messages,
        backend_groups.batched,
        backend_groups.objects,
        backend_groups.works,
        backend_groups.waits_in_callbacks,
        backend_groups.forgotten,
        backend_groups.subgroups,
        backend_groups.backend_object,
    ],
    ids=lambda function: function.__name__,
)
def test_that_goes_well(pool: RankPool, what: object) -> None:
    pool.run(what)


def test_waiting_may_be_given_up_and_the_operation_goes_on(pool: RankPool) -> None:
    for said in pool.run(backend_groups.waits_at_most)[:-1]:
        assert "was not done within 100 ms" in said[0]


def test_a_group_has_a_timeout_of_its_own_and_others_go_on(pool: RankPool) -> None:
    late = pool.count - 1
    for said, after_s in pool.run(backend_groups.late_in_group, late)[:-1]:
        assert f"rank {late}" in said
        assert "\n" not in said.strip()
        assert 1.0 < after_s < 10.0
    pool.run(backend_groups.works)


def test_destroying_a_group_waits_for_nobody(pool: RankPool) -> None:
    assert max(pool.run(backend_groups.destroyed_in_any_order)) < 3.0
    pool.run(backend_groups.works)


def test_a_timeout_can_be_shortened_and_holds_where_nobody_waits(pool: RankPool) -> None:
    late = pool.count - 1
    for said in pool.run(backend_groups.with_new_timeout, late, 40.0, 0.5)[:-1]:
        assert len(said) == 2
        assert all(f"rank {late}" in one for one in said)
    pool.run(backend_groups.works)


def test_a_timeout_can_be_lengthened(pool: RankPool) -> None:
    late = pool.count - 1
    for said in pool.run(backend_groups.with_new_timeout, late, 2.0, 60.0)[:-1]:
        assert said == ["", ""]
    pool.run(backend_groups.works)


def test_a_monitored_barrier_names_who_does_not_come(pool: RankPool) -> None:
    said = pool.run(backend_groups.monitored, pool.count - 1)
    assert f"Rank {pool.count - 1} failed to pass monitoredBarrier in 1000 ms" in said[0]
    pool.run(backend_groups.works)


def test_a_mismatch_names_both_sides(pool: RankPool) -> None:
    for said in pool.run(backend_groups.mismatched):
        assert "rank 1 runs all_reduce of 7" in said or "rank 1 of 7" in said
        assert "of 5" in said
    pool.run(backend_groups.works)


def test_an_abort_ends_what_is_in_flight_on_every_rank(pool: RankPool) -> None:
    for said in pool.run(backend_groups.aborted):
        assert "rank 0 aborted" in said
    pool.run(backend_groups.works)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_the_others_hear_of_a_lost_rank(how: signal.Signals) -> None:
    timeout_s = 6.0
    with RankPool(3, "pleach", timeout_s=timeout_s) as pool:
        pool.run(backend_groups.works)
        pool.start(backend_groups.lose, 1, int(how), ranks=[1])
        for said, after_s in pool.run(backend_groups.lose, 1, int(how), ranks=[0, 2]):
            assert "rank 1" in said
            assert "\n" not in said.strip()
            assert after_s < timeout_s + 4.0
        pool.kill(1)


def test_groups_are_made_and_destroyed_again_and_again() -> None:
    with RankPool(2, "") as pool:
        folder = str(pool.folder())
        pool.run(backend_groups.hands_on_options, folder, 2)
        pool.run(backend_groups.join_again, folder, 2)
        assert pool.run(backend_groups.device_backends, folder, 2) == ["pleach", "pleach"]


def test_who_never_comes_is_named() -> None:
    with RankPool(3, "") as pool:
        for said, after_s in pool.run(backend_groups.never_comes, str(pool.folder()), 3)[:-1]:
            assert "rank 2" in said
            assert after_s < 10.0


def member(store: Any, rank: int, count: int, **alike: object) -> Any:
    """Returns a rank of a group that is made over `store`."""
    from datetime import timedelta

    from pleach.torch.rendezvous import Member

    return Member(store, rank, count, timedelta(seconds=5), alike)


def test_ranks_that_were_given_different_options_are_told() -> None:
    from types import SimpleNamespace

    from torch.distributed import HashStore

    from pleach.torch.rendezvous import agree_on_carrier, meet

    store = HashStore()
    shim = SimpleNamespace(listen=lambda host, port: (1234, 5))
    given = {"transport": "shm", "place_bytes": 0}
    assert meet(member(store, 0, 3, **given), shim).port == 1234
    assert meet(member(store, 1, 3, **given), shim).port == 1234
    differs = member(store, 2, 3, transport="tcp", place_bytes=0)
    with pytest.raises(ValueError, match=r"rank 2 .* transport='tcp', rank 0 has 'shm'"):
        meet(differs, shim)
    assert agree_on_carrier(member(store, 0, 3, **given), []) == ""
    with pytest.raises(ValueError, match=r"rank 2 .* transport='tcp', rank 0 has 'shm'"):
        agree_on_carrier(differs, [])


@pytest.mark.parametrize(
    "words",
    [
        b"xx",
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
        b'{"alike": {}}',
        b'{"alike": {}, "names": 5}',
        b'{"alike": [1], "names": []}',
        b"127.0.0.1\n99999999\ntoken\nhost\n{}",
        b"127.0.0.1\n-5\ntoken\nhost\n{}",
        b"127.0.0.1\n5\ntoken\nhost\n[1]",
        b"127.0.0.1\n5\ntoken\n\x1b[31m\n{}",
    ],
)
def test_other_words_in_the_groups_store_are_told(words: bytes) -> None:
    from torch.distributed import HashStore

    from pleach.torch import rendezvous

    store = HashStore()
    for key in ("pleach/offer/1", "pleach/address/1"):
        store.set(key, words)
    for agree in (rendezvous.agree_on_carrier, rendezvous.meet):
        with pytest.raises(RuntimeError, match=r"^pleach: rank 1: the group's store has '") as told:
            agree(member(store, 1, 2), [])
        assert str(told.value).isprintable()


def test_a_choice_that_was_not_offered_is_told() -> None:
    from torch.distributed import HashStore

    from pleach.torch.rendezvous import agree_on_carrier

    store = HashStore()
    store.set("pleach/offer/1", '{"alike": {}, "names": ["a", "b"]}')
    store.set("pleach/choice/1", "b")
    with pytest.raises(RuntimeError, match="has 'b' under pleach/choice/1"):
        agree_on_carrier(member(store, 1, 2), ["a"])


@pytest.mark.parametrize("least", [1, 2])
def test_all_ranks_share_what_all_of_them_hold_whoever_comes_first(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every choice of what three ranks hold of two endpoints, and of who comes late."""
    import itertools
    from concurrent.futures import ThreadPoolExecutor

    from torch.distributed import HashStore

    from pleach.torch import rendezvous
    from pleach.torch.rendezvous import agree_on_carrier

    monkeypatch.setattr(rendezvous, "_ENDPOINTS", least)
    store = HashStore()
    some = [[], ["a"], ["b"], ["a", "b"], ["b", "a"]]
    with ThreadPoolExecutor(3) as pool:
        for held in itertools.product(some, repeat=3):
            for late in range(3):
                order = [*(rank for rank in range(3) if rank != late), late]
                ranks = {
                    rank: pool.submit(agree_on_carrier, member(store, rank, 3), held[rank])
                    for rank in order
                }
                chosen = {one.result() for one in ranks.values()}
                common = [name for name in held[0] if name in held[1] and name in held[2]]
                common = common if len(held[0]) >= least else []
                assert chosen == {common[0] if common else ""}, (held, late)


@pytest.mark.parametrize("transport", ["shm", "tcp", "tcp,sockets=2"])
def test_groups_share_threads_and_descriptors(transport: str) -> None:
    """Of the same ranks; and those of one that fails end no other."""
    with RankPool(2, "pleach", {"PLEACH_TRANSPORT": transport}) as pool:
        assert pool.run(backend_groups.transport_used) == [transport] * 2
        for descriptors, threads in pool.run(backend_groups.many_groups, 100):
            assert descriptors <= 200
            assert threads <= 20


@pytest.mark.parametrize("transport", ["shm", "tcp", "tcp,sockets=3"])
def test_groups_go_on_while_others_are_aborted(transport: str) -> None:
    """Wherever a message of an aborted one stands on the connection that they share."""
    with RankPool(2, "pleach", {"PLEACH_TRANSPORT": transport}) as pool:
        assert pool.run(backend_groups.transport_used) == [transport] * 2
        pool.run(backend_groups.abort_within_messages, 30)


def test_calls_are_interrupted() -> None:
    with RankPool(2, "pleach") as pool:
        took_s = pool.run(backend_groups.interrupt)[0]
        assert len(took_s) == 6, took_s
        assert max(took_s.values()) < 0.5, took_s


def test_threads_of_callbacks_end() -> None:
    with RankPool(2, "pleach") as pool:
        for before, after in pool.run(backend_groups.end_callbacks):
            assert after <= before + 1, "the thread that moves lanes on stays"


def test_nothing_is_left_of_groups_that_were_destroyed() -> None:
    with RankPool(2, "pleach") as pool:
        for before, after in pool.run(backend_groups.made_without_collection, 12):
            assert after == before, "descriptors and threads"
