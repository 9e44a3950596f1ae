"""Communicators on arrays, against NumPy."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jobs
import numpy as np
import pytest
from numpy.typing import NDArray

import pleach

Array = NDArray[Any]
TYPES = ("float32", "float64", "float16", "int8", "int32", "int64", "uint8")
SIZES = (0, 1, 5, 97, 4096, 100_003)
REDUCTIONS: dict[str, Any] = {
    "sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}


def of_rank(rank: int, size: int, dtype: str, seed: int) -> Array:
    """Small whole numbers: their sums and products are exact in every type."""
    random = np.random.default_rng([seed, rank])
    low = 0 if dtype == "uint8" else -2
    return random.integers(low, 3, size).astype(dtype)


def reduced(op: str, arrays: list[Array]) -> Array:
    total = arrays[0].copy()
    for array in arrays[1:]:
        total = REDUCTIONS["sum" if op == "average" else op](total, array)
    return (total / len(arrays)).astype(total.dtype) if op == "average" else total


def everything(endpoint: pleach.Endpoint, seed: int) -> int:
    """Every collective, of random types, sizes and operations; returns how many."""
    random = np.random.default_rng(seed)
    done = 0
    with endpoint.communicator() as ranks:
        rank, count = ranks.rank, ranks.rank_count
        for size in SIZES:
            dtype = str(random.choice(TYPES))
            is_floating = dtype.startswith("float")
            ops = ["sum", "min", "max", *(["average"] if is_floating else ["bor", "bxor", "band"])]
            op = str(random.choice(ops))
            root = int(random.integers(count))
            mine = [of_rank(one, size, dtype, seed) for one in range(count)]
            wide = [of_rank(one, size * count, dtype, seed + 1) for one in range(count)]

            np.testing.assert_array_equal(ranks.all_reduce(mine[rank], op=op), reduced(op, mine))
            part = slice(rank * size, (rank + 1) * size)
            np.testing.assert_array_equal(
                ranks.reduce_scatter(wide[rank], op=op), reduced(op, wide)[part]
            )
            np.testing.assert_array_equal(ranks.all_gather(mine[rank]), np.concatenate(mine))
            np.testing.assert_array_equal(
                ranks.all_to_all(wide[rank]), np.concatenate([one[part] for one in wide])
            )
            told = mine[root].copy() if rank == root else np.zeros_like(mine[0])
            assert ranks.broadcast(told, root) is told
            np.testing.assert_array_equal(told, mine[root])
            result = ranks.reduce(mine[rank], op=op, root=root)
            gathered = ranks.gather(mine[rank], root=root)
            if rank == root:
                np.testing.assert_array_equal(result, reduced(op, mine))
                np.testing.assert_array_equal(gathered, np.concatenate(mine))
            else:
                assert result is None
                assert gathered is None
            given = wide[rank] if rank == root else None
            scattered = ranks.scatter(given, np.empty(size, dtype), root=root)
            np.testing.assert_array_equal(scattered, wide[root][part])
            done += 8
        ranks.barrier()
    return done


@pytest.mark.parametrize("rank_count", [1, 2, 3, 4])
def test_collectives_are_numpys(rank_count: int) -> None:
    for seed in (7, 8):
        assert jobs.run(rank_count, everything, seed) == [8 * len(SIZES)] * rank_count


def parts(endpoint: pleach.Endpoint) -> None:
    with endpoint.communicator("parts") as ranks:
        rank, count = ranks.rank, ranks.rank_count
        counts = [(7 * one) % 5 for one in range(count)]
        begins = np.cumsum([0, *counts])
        whole = np.arange(sum(counts), dtype=np.int32)
        own = whole[begins[rank] : begins[rank + 1]]
        np.testing.assert_array_equal(ranks.all_gather(own, counts=counts), whole)
        np.testing.assert_array_equal(ranks.reduce_scatter(whole, counts=counts), count * own)
        gathered = ranks.gather(own, root=1, counts=counts)
        assert (gathered is not None) == (rank == 1)
        given = whole if rank == 1 else None
        got = ranks.scatter(given, np.empty(counts[rank], np.int32), root=1, counts=counts)
        np.testing.assert_array_equal(got, own)
        sent = [rank + target for target in range(count)]
        received = [source + rank for source in range(count)]
        exchanged = ranks.all_to_all(
            np.full(sum(sent), rank, np.float32), counts=sent, receive_counts=received
        )
        np.testing.assert_array_equal(exchanged, np.repeat(np.arange(count), received))
        # Along the first axis, and in place.
        table = np.full((2, 3), rank, np.float64)
        assert ranks.all_gather(table).shape == (2 * count, 3)
        assert ranks.reduce_scatter(np.ones((2 * count, 3))).shape == (2, 3)
        assert ranks.all_reduce(table, table) is table
        np.testing.assert_array_equal(table, np.full((2, 3), count * (count - 1) / 2))


def test_parts_of_their_own_sizes() -> None:
    jobs.run(3, parts)


def in_flight(endpoint: pleach.Endpoint) -> None:
    with endpoint.communicator() as ranks:
        count = ranks.rank_count
        arrays = [np.full(10_000 + one, one, np.float32) for one in range(6)]
        started = [ranks.start("all_reduce", one, one) for one in arrays]
        for number, operation in enumerate(reversed(started)):
            result = operation.wait(20)
            np.testing.assert_array_equal(result, count * np.full_like(result, 5 - number))
            assert operation.is_done
            assert operation.elapsed_s is not None
        # Arrays of what is in flight are kept, though nobody else has them.
        for _ in range(20):
            ranks.start("all_reduce", np.ones(50_000, np.float32))
        shared = pleach.empty((3, 5), np.float32)
        assert not shared.any()
        shared += ranks.rank
        assert ranks.all_reduce(shared, shared) is shared
        np.testing.assert_array_equal(shared, np.full((3, 5), count * (count - 1) / 2))
        ranks.barrier()
        half = ranks.all_reduce(np.full(9, 0.1, np.float16), wire="float32")
        assert half.dtype == np.float16
        close_when_over(ranks)


def close_when_over(ranks: pleach.Communicator) -> None:
    """Leaves when what nobody has waited for is over: what came later may be over before."""
    limit = time.monotonic() + 20
    while time.monotonic() < limit:
        try:
            ranks.close()
        except pleach.InvalidArgumentError as refused:
            if "in flight" not in str(refused):
                raise
            time.sleep(0.01)
        else:
            return
    ranks.close()


def test_several_in_flight_and_shared_memory() -> None:
    jobs.run(3, in_flight)
    jobs.run(2, in_flight, transport="tcp")


def brain_floats(endpoint: pleach.Endpoint) -> None:
    import ml_dtypes

    with endpoint.communicator() as ranks:
        array = np.full(1001, 1.5, ml_dtypes.bfloat16)
        total = ranks.all_reduce(array, wire="float32")
        assert total.dtype == array.dtype
        np.testing.assert_array_equal(total.astype(np.float32), 1.5 * ranks.rank_count)
        with pytest.raises(pleach.InvalidArgumentError, match="float8"):
            ranks.all_reduce(np.zeros(3, ml_dtypes.float8_e5m2))


def test_brain_floats() -> None:
    pytest.importorskip("ml_dtypes")
    jobs.run(2, brain_floats)


def messages(endpoint: pleach.Endpoint) -> None:
    with endpoint.communicator() as ranks:
        rank, count = ranks.rank, ranks.rank_count
        following, before = (rank + 1) % count, (rank - 1) % count
        buffer = np.empty(1000, np.int64)
        sending = ranks.start_send(np.full(999, rank), following, tag=3)
        received = ranks.receive(buffer, before, tag=3)
        assert (received.size_bytes, received.source) == (999 * 8, before)
        np.testing.assert_array_equal(buffer[:999], np.full(999, before))
        sending.wait()
        if rank == 0:
            sources = {ranks.receive(buffer, tag=4).source for _ in range(count - 1)}
            assert sources == set(range(1, count))
        else:
            ranks.send(np.empty(0), 0, tag=4)
        with pytest.raises(pleach.InvalidArgumentError):
            ranks.send(np.empty(0), count)


def test_messages() -> None:
    jobs.run(3, messages)


def groups(endpoint: pleach.Endpoint) -> int:
    with endpoint.communicator() as ranks:
        half = ranks.split(ranks.rank % 2)
        assert half is not None
        none = ranks.split(-1)
        assert none is None
        with half:
            total = half.all_reduce(np.array([ranks.rank]))
        if ranks.rank in (1, 3):
            with endpoint.communicator("odd", ranks=[3, 1]) as odd:
                assert odd.rank == (3, 1).index(ranks.rank)
        return int(total[0])


def test_groups() -> None:
    assert jobs.run(4, groups) == [2, 4, 2, 4]


def refusals(endpoint: pleach.Endpoint) -> None:
    with endpoint.communicator() as ranks:
        three = np.ones(3, np.float32)
        cases: list[tuple[str, dict[str, Any], str]] = [
            ("all_reduce", {"input": np.ones(3, np.uint16)}, "uint16"),
            ("all_reduce", {"input": np.ones(3, np.complex64)}, "complex64"),
            ("all_reduce", {"input": three, "output": np.ones(4, np.float32)}, "4 elements, not 3"),
            ("all_reduce", {"input": three, "output": np.ones(3)}, "float64"),
            ("all_reduce", {"input": three, "output": np.ones(6, np.float32)[::2]}, "contiguous"),
            ("all_reduce", {"input": three, "op": "mean"}, "mean"),
            ("all_reduce", {"input": three, "wire": "float64"}, "wire"),
            ("all_reduce", {"input": three, "counts": [1, 2]}, "counts"),
            ("all_reduce", {}, "no array"),
            ("reduce_scatter", {"input": three}, "3 elements, not 2"),
            ("all_gather", {"input": three, "counts": [3]}, "counts"),
            ("all_to_all", {"input": three, "counts": [1, 2]}, "receive_counts"),
            ("broadcast", {"output": three, "root": 2}, "root"),
            ("all_reduce", {"input": [1.0, 2.0]}, r"input: \[1.0, 2.0\] is no NumPy array"),
            ("all_reduce", {"input": three, "output": [0]}, "output: .* is no NumPy array"),
            ("broadcast", {"output": "x"}, "output: 'x' is no NumPy array"),
            ("all_reduce", {"input": np.array([object()])}, "object do not travel"),
            ("reduce_scatter", {"input": three, "counts": [1.5, None]}, r"start: .*counts="),
            ("broadcast", {"output": three, "root": "0"}, r"start: .*root='0'"),
            ("all_reduse", {"input": three}, "all_reduce"),
        ]
        for collective, words, what in cases:
            with pytest.raises(ValueError, match=what):
                ranks.start(collective, **words)
        for time_s in (-1, float("nan"), float("inf"), 1e300):
            with pytest.raises(pleach.InvalidArgumentError, match="is not from 0 to"):
                ranks.start_send(three, 0, deadline_s=time_s)
        with pytest.raises(pleach.InvalidArgumentError, match="object do not travel"):
            ranks.start_send(np.array([None]), 0)
        with pytest.raises(TypeError, match="unexpected keyword"):
            ranks.start("all_reduce", three, sum="op")  # type: ignore[call-arg]
        # None of them has happened.
        np.testing.assert_array_equal(ranks.all_reduce(three), 2 * three)
    with pytest.raises(ValueError, match="closed"):
        ranks.barrier()
    endpoint.close()
    with pytest.raises(ValueError, match="closed"):
        endpoint.communicator()


def test_what_does_not_fit_is_refused_and_harms_nothing() -> None:
    jobs.run(2, refusals)


def failing(endpoint: pleach.Endpoint) -> str:
    try:
        with endpoint.communicator() as ranks:
            if ranks.rank == 1:
                ranks.start("all_reduce", np.ones(100_000, np.float32))
                raise KeyError("a mistake")
            ranks.all_reduce(np.ones(100_000, np.float32))
            ranks.barrier()
    except pleach.Error as error:
        return str(error)
    return ""


def test_a_rank_that_raises_ends_the_others_with_its_reason() -> None:
    processes, reports = jobs.start(2, failing)
    told = [report.recv() for report in reports]
    for process in processes:
        process.join(10)
    assert "a mistake" in told[0][1]
    assert "KeyError" in told[1][0]


def waiting(endpoint: pleach.Endpoint) -> str:
    ranks = endpoint.communicator()
    ranks.barrier()
    if ranks.rank == 1:
        time.sleep(30)
    operation = ranks.start("all_reduce", np.ones(10, np.float32))
    with pytest.raises(pleach.DeadlineError, match="goes on"):
        operation.wait(0.1)
    with pytest.raises((pleach.DeadlineError, pleach.PeerLostError)) as raised:
        operation.wait()
    with pytest.raises(pleach.Error):
        ranks.close()
    ranks.close()  # what has been said once hides no other error
    return str(raised.value)


def test_deadlines_name_who_did_not_come() -> None:
    processes, reports = jobs.start(2, waiting, deadline_s=1.5)
    begin = time.monotonic()
    error, told = reports[0].recv()
    assert time.monotonic() - begin < 15
    assert error is None
    assert "rank 1" in told
    for process in processes:
        process.kill()
        process.join()


def handles(endpoint: pleach.Endpoint) -> None:
    with endpoint.communicator() as ranks:
        operation = ranks.start("all_reduce", np.ones(10, np.float32))
        for handle in (endpoint, ranks, operation):
            for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot be copied or pickled"):
                    duplicate(handle)
        operation.wait()


def test_handles_have_one_owner() -> None:
    jobs.run(1, handles)


def test_memory_that_others_read_is_of_any_shape() -> None:
    assert pleach.empty(np.int64(3)).shape == (3,)
    assert pleach.empty([np.int32(2), 0], np.int64).shape == (2, 0)
    with pytest.raises(pleach.InvalidArgumentError, match="object do not travel"):
        pleach.empty(3, object)
    with pytest.raises(pleach.InvalidArgumentError, match="over 2\\^62 bytes"):
        pleach.empty((1 << 32, 1 << 32), np.float64)


def stopped(endpoint: pleach.Endpoint) -> None:
    ranks = endpoint.communicator()
    ranks.barrier()
    if ranks.rank == 0:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            ranks.barrier()
        assert time.monotonic() - begin < 5
        ranks.abort("enough")
    else:
        with pytest.raises(pleach.Error, match="enough"):
            ranks.receive(np.empty(1))


def test_waits_can_be_interrupted() -> None:
    jobs.run(2, stopped, deadline_s=10)


SCRIPT = """
import numpy as np, pleach
with pleach.Endpoint() as endpoint, endpoint.communicator() as ranks:
    total = ranks.all_reduce(np.array([ranks.rank + 1]))
    print(f"rank {ranks.rank} of {ranks.rank_count}: {total[0]}", flush=True)
"""


def test_under_launch(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run = subprocess.run(
        [
            os.environ.get("PLEACH", "pleach"),
            "launch",
            "-n",
            "3",
            "--",
            sys.executable,
            str(script),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for rank in range(3):
        assert f"rank {rank} of 3: 6" in run.stdout
