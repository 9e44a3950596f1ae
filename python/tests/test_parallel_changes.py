"""Changes to a model in the midst of its training are right, or named."""

# timeout_s: 300
from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_changes  # noqa: E402
from rank_pool import training_pool  # noqa: E402

DEAR = "dear,bucket=1KiB"
DDP = "ddp,bucket=1KiB"
ALL = frozenset(parallel_changes.TIMES)
TYPE = (
    r"^parameter {} has type torch.float32, and had torch.float64 when data_parallel was called: "
)
# By change: the error, and the times at which it is one; at others it is right.
REFUSED = {
    "float": (TYPE.format(r"\w+\.weight"), ALL),
    "to": (TYPE.format(r"\w+\.weight").replace("float32", "bfloat16"), ALL),
    "float of a part": (TYPE.format(r"part.\w+"), ALL),
    "float of an unused part": (TYPE.format(r"unused.\w+"), ALL),
    "there and back": (TYPE.format(r"\w+\.weight"), {"backward", "step"}),
    "there and back of a part": (TYPE.format(r"part.\w+"), {"backward", "step"}),
    "type of gradients": ("^parameter part.weight has grad_dtype torch.float32", ALL),
    "new module": (r"^parameter part.\w+ is new since data_parallel was called", ALL),
    "new parameter": (r"^parameter part.weight is new since data_parallel was called", ALL),
    "added": (r"^parameter extra.\w+ is new since data_parallel was called", ALL),
    "float anew": (
        r"^parameter first.weight is new since|^the type or device of the gradient of first.weight",
        ALL,
    ),
    "fewer rows": (r"^parameter head.weight has shape \(2, 72\), and had \(3, 72\)", ALL),
    "float by data": (TYPE.format("part.weight"), ALL),
}
# PyTorch itself refuses to compute with these.
PLAIN = {
    "float by data": (r"must have the same dtype", {"created", "step", "cleared"}),
    "fewer rows": (r"AddmmBackward0 returned an invalid gradient", {"step", "cleared"}),
    "type of gradients": (r"Cannot set grad_dtype", {"backward", "step"}),
}


@pytest.mark.parametrize("change", parallel_changes.CHANGES)
@pytest.mark.parametrize(
    ("backend", "count", "policy", "options"),
    [
        ("gloo", 2, DEAR, {}),
        ("pleach", 3, DEAR, {}),
        ("pleach", 2, DDP, {}),
        ("pleach", 2, DEAR, {"lazy": True}),
    ],
    ids=str,
)
def test_changes(
    backend: str, count: int, policy: str, options: dict[str, Any], change: str
) -> None:
    pool = training_pool(3, backend)
    for found in pool.run(
        parallel_changes.changes, change, count, policy, options, ranks=range(count)
    ):
        for time, what in found.items():
            message, times = REFUSED.get(change, ("", frozenset()))
            by_torch, times_of_torch = PLAIN.get(change, ("", frozenset()))
            if time in times or time in times_of_torch:
                matches = [message] if time in times else []
                matches += [by_torch] if time in times_of_torch else []
                assert any(re.search(one, what) for one in matches), (time, what)
            else:
                assert what == "right", (time, what)


SCATTERED = (
    r"{} of the gradient of head.weight: it is scattered over 2 ranks; read it inside `with "
    r"optimizer.whole_gradients\(\):`"
)
MISUSES = {
    "wrapped": "^DistributedDataParallel: data_parallel averages this model's gradients already",
    "sharded": "^FullyShardedDataParallel: data_parallel averages this model's gradients already",
    "another optimizer": (
        r"^Adam.step\(\) uses the gradient of first.weight, and this Adam is not the optimizer "
        r"that data_parallel returned \(SGD\)"
    ),
    "converted with gradients": "^parameter first.weight has type torch.float16, and had",
    "not cleared after a conversion": "gradient of part.weight, .* call optimizer.zero_grad",
    "one of two new ones frozen": "^parameter extra.bias takes gradients, and did not when",
    "two optimizers": "^parameter convolved.weight takes gradients, .* make one optimizer of all",
    "LBFGS": "several times a step; use ",
    "SparseAdam": "needs sparse gradients; use ",
    "numpy": SCATTERED.format(r"^numpy\(\)"),
    "array": SCATTERED.format(r"^numpy\(\)"),
    "list": SCATTERED.format(r"^tolist\(\)"),
    "address": SCATTERED.format(r"^data_ptr\(\)"),
    "shared memory": SCATTERED.format(r"^share_memory_\(\)"),
    "copy": SCATTERED.format(r"^deepcopy\(\)"),
    "file": SCATTERED.format("^a file"),
    "all_reduce": SCATTERED.format("^allreduce_"),
}


def errors_of(name: str, policy: str = DEAR) -> list[str]:
    pool = training_pool(3, "gloo")
    found: list[str] = pool.run(parallel_changes.misuse, name, policy, ranks=range(2))
    return found


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_is_named(name: str) -> None:
    for message in errors_of(name):
        assert re.search(MISUSES[name], message), message


def test_misuse_of_whole_gradients_is_named() -> None:
    for name in ("wrapped", "not cleared after a conversion"):
        for message in errors_of(name, DDP):
            assert re.search(MISUSES[name], message), message


def test_whole_gradients_are_plain() -> None:
    training_pool(3, "gloo").run(parallel_changes.whole_gradients_are_plain, ranks=range(2))
