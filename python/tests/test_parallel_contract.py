"""After step() returns, all code sees final values, and what it writes counts."""

# timeout_s: 400
from __future__ import annotations

import functools
import importlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)  # the first one starts the ranks

import parallel_contract as contract  # noqa: E402
from parallel_cases import EARLY, OWNERS  # noqa: E402
from parallel_reads import BUFFERS, PASSES, READS  # noqa: E402
from rank_pool import training_pool  # noqa: E402

DEAR = "dear,bucket=1KiB"
DDP = "ddp,bucket=1KiB"


COUNT = 3
BOTH = pytest.mark.parametrize("backend", ["gloo", "pleach"])


def run(backend: str, check: Any, *arguments: Any, count: int = 2) -> list[Any]:
    pool = training_pool(COUNT, backend)
    return pool.run(check, *arguments, ranks=range(count), deadline_s=200)


@BOTH
@pytest.mark.parametrize(
    "options",
    [{}, {"policy": DDP}, {"policy": OWNERS}, {"policy": EARLY}, {"gather": "gradients"}],
    ids=str,
)
def test_reads_right_after_a_step_are_final(backend: str, options: dict[str, Any]) -> None:
    # gathers=early refuses a second backward pass before step().
    names = set(READS) - (PASSES if options.get("policy") == EARLY else set())
    assert run(backend, contract.reads_are_final, sorted(names), options) == [[], []]


@BOTH
def test_reads_are_old_with_lazy(backend: str) -> None:
    old = run(backend, contract.reads_are_final, list(READS), {"lazy": True})
    assert min(map(len, old)) >= 20  # so that the test above can fail


@BOTH
def test_reads_are_errors_with_lazy_and_check(backend: str) -> None:
    # These wait at gates and hooks also with lazy.
    waiting = {"state_dict", "forward of a part", "functional_call", "trace of a part"}
    for rank, silent in enumerate(run(backend, contract.reads_are_errors, list(READS))):
        assert set(silent) - waiting == (BUFFERS if rank == 0 else set())


@BOTH
def test_what_shares_memory_is_final(backend: str) -> None:
    run(backend, contract.aliases_are_right)


@BOTH
def test_what_shares_memory_is_named_with_lazy_and_check(backend: str) -> None:
    for message in run(backend, contract.aliases_with_lazy_are_errors):
        assert "parameter head.weight shares its memory with a tensor of shape (8, 8)" in message


@BOTH
def test_what_shared_memory_before_is_named(backend: str) -> None:
    for message in run(backend, contract.aliases_of_before):
        assert "parameter part.0.bias shares its memory with a tensor of shape (400,)" in message


@BOTH
@pytest.mark.parametrize(
    ("optimizer", "write"),
    [
        ("SGD", "clamp"),
        ("Adam", "data"),
        ("SGD", "foreach"),
        ("AdamW", "set data"),
        ("SGD", "vector"),
        ("SGD", "buffer"),
        ("RMSprop", "init"),
    ],
)
def test_writes_right_after_a_step_count(backend: str, optimizer: str, write: str) -> None:
    found = run(backend, contract.writes_count, optimizer, write)
    assert max(off for off, _ in found) <= 1e-12
    assert len({digest for _, digest in found}) == 1


@BOTH
@pytest.mark.parametrize("policy", [DEAR, DDP, OWNERS])
@pytest.mark.parametrize(("name", "count"), [("counting", 2), ("counting", 3), ("declared", 3)])
def test_optimizers_of_ones_own(backend: str, name: str, policy: str, count: int) -> None:
    for off, counted in run(backend, contract.own_steps, name, policy, count, count=count):
        assert off <= 1e-12
        assert counted == (5, 5, {5})


@BOTH
@pytest.mark.parametrize("policy", [DEAR, DDP])
def test_declared_optimizers_where_gradients_are_gathered(backend: str, policy: str) -> None:
    given = (contract.own_steps, "declared", policy, 2, "gradients")
    for off, counted in run(backend, *given, count=2):
        assert off <= 1e-12
        assert counted == (5, 5, {5})


@BOTH
@pytest.mark.parametrize("policy", [DEAR, DDP, OWNERS])
@pytest.mark.parametrize(("name", "count"), [("Adam", 3), ("SGD", 2), ("NAdam", 2)])
def test_optimizer_state(backend: str, name: str, policy: str, count: int) -> None:
    run(backend, contract.state_is_the_plain_ones, name, policy, count, count=count)


@BOTH
@pytest.mark.parametrize("way", ["clear", "delete", "replace", "held"])
def test_states_that_are_reset(backend: str, way: str) -> None:
    assert max(run(backend, contract.states_that_are_reset, way)) <= 1e-12


@BOTH
def test_what_cannot_be_made_right_is_refused(backend: str) -> None:
    for messages in run(backend, contract.what_is_refused):
        assert "cannot be moved to shared memory" in messages[0]
        assert "optimizer.param_groups has other parameters" in messages[1]


@BOTH
def test_scripts_and_parameters_without_gradients(backend: str) -> None:
    for (message,) in run(backend, contract.what_takes_no_part):
        assert "has no script: call torch.jit.script before data_parallel" in message


@BOTH
def test_buffers_of_all_kinds(backend: str) -> None:
    trained = ["sparse", "csr", "quantized", "nested", "float8", "uint16", "conjugate"]
    refused = {
        "different": "rank 1 has more of layout torch.sparse_coo",
        "changed": "buffer more has changed, and is not dense",
        "expanded": "buffer more has elements that share memory (expand())",
        "inference": "buffer more was made in inference mode",
    }
    for said in run(backend, contract.buffers_of_kinds, [*trained, *refused]):
        assert [said[kind] for kind in trained] == [""] * len(trained)
        for kind, expected in refused.items():
            assert expected in said[kind]


@BOTH
def test_copies_of_optimizers(backend: str) -> None:
    assert run(backend, contract.copies_of_optimizers) == [True, True]


@BOTH
def test_threads_that_read(backend: str) -> None:
    assert run(backend, contract.read_by_threads) == [0, 0]


@BOTH
def test_views_of_divided_states_are_refused(backend: str) -> None:
    for messages in run(backend, contract.views_of_shards_are_refused):
        assert len(messages) == 3
        assert all("what is written to it would be lost" in message for message in messages)


@BOTH
def test_optimizer_state_that_one_rank_owns(backend: str) -> None:
    run(backend, contract.owned_state_is_the_plain_ones, COUNT, count=COUNT)


@BOTH
def test_checkpoints_are_restored(backend: str) -> None:
    assert max(run(backend, contract.restored_by_checkpoints, 2)) <= 1e-12


@BOTH
def test_checkpoints_do_not_step(backend: str) -> None:
    assert run(backend, contract.saved_by_checkpoints) == [4.0, 4.0]


@BOTH
@pytest.mark.parametrize("policy", [DEAR, DDP, OWNERS])
def test_half_sums_do_not_overflow(backend: str, policy: str) -> None:
    for count in (2, 3):
        for found in run(backend, contract.half_sums, policy, count, count=count):
            assert found == pytest.approx([-8.0, -8.0], rel=2e-3)


@BOTH
@pytest.mark.parametrize("policy", [DEAR, DDP])
def test_complex_numbers(backend: str, policy: str) -> None:
    for apart, off in run(backend, contract.complex_parameters, policy, 3, count=3):
        assert apart <= 1e-12
        assert off <= 1e-12


@BOTH
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("wrapped", "the model is wrapped in DistributedDataParallel, which averages gradients"),
        ("script", "module 0 is a script, which takes no hooks: pass the module that it was made"),
    ],
)
def test_models_that_cannot_be_trained_are_named(backend: str, what: str, expected: str) -> None:
    for message in run(backend, contract.modules_are_named, what):
        assert message.startswith(expected)


@BOTH
def test_compiled_averages_compile_once(backend: str) -> None:
    for compilations, is_right in run(backend, contract.compiled_averages):
        assert compilations <= 2
        assert is_right


@BOTH
@pytest.mark.parametrize("policy", [DEAR, DDP])
def test_what_shares_memory_with_states(backend: str, policy: str) -> None:
    run(backend, contract.aliases_of_states, policy)


@BOTH
def test_states_that_grow(backend: str) -> None:
    run(backend, contract.states_that_grow)


@BOTH
def test_closed_after_a_backward_pass(backend: str) -> None:
    run(backend, contract.closed_after_backward)


def test_functions_that_wait_are_there() -> None:
    from pleach.torch.parallel import guard

    for module, path in (*guard._WAIT_FOR_ARGUMENTS, *guard._WAIT_FOR_ALL):
        place = importlib.import_module(module)
        assert callable(functools.reduce(getattr, path.split("."), place)), (module, path)


@BOTH
def test_late_readers(backend: str) -> None:
    run(backend, contract.late_readers)
