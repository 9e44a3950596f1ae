"""Training in parallel is training on whole batches, within rounding, and alike on all ranks."""

# timeout_s: 300
from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_jobs as jobs  # noqa: E402
from parallel_cases import EARLY, OWNERS, make_model  # noqa: E402
from rank_pool import training_pool  # noqa: E402

from pleach.torch.parallel import updates  # noqa: E402
from pleach.torch.parallel.layout import Layout, Member, Rules  # noqa: E402

LONG = bool(os.environ.get("PLEACH_LONG"))
BUCKET = "bucket=1KiB"
POLICIES = [
    f"dear,{BUCKET}",
    f"ddp,{BUCKET}",
    EARLY,
    "wfbp",
    f"zero1,{BUCKET}",
]
# Largest differences that are rounding: by how an optimizer treats small differences, and by type.
TOLERANCES = {
    ("sgd", "float32"): 1e-6,
    ("nesterov", "float32"): 1e-6,
    ("sgd", "float64"): 1e-12,
    ("nesterov", "float64"): 1e-12,
}


def tolerance(optimizer: str, dtype: str) -> float:
    if optimizer in ("muon", "adafactor"):
        return 1e-6
    return TOLERANCES.get((optimizer, dtype), 1e-10)


def check(
    kind: str, optimizer: str, count: int, dtype: str, policy: str, **options: object
) -> None:
    found = training_pool().run(
        jobs.compare_with_whole_batch,
        kind,
        optimizer,
        count,
        dtype,
        policy,
        options,
        ranks=range(count),
    )
    within = tolerance(optimizer, dtype)
    assert max(parameters for parameters, _, _ in found) <= within
    assert max(losses for _, losses, _ in found) <= 10 * within
    assert len({digest for _, _, digest in found}) == 1


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
        ("SGD", {"lr": 0.1, "maximize": True, "weight_decay": 0.1}),
        ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
        ("Adam", {"lr": torch.tensor(0.1)}),
        ("AdamW", {"amsgrad": True, "maximize": True}),
        ("Adamax", {"weight_decay": 0.1}),
        ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}),
        ("Adagrad", {"maximize": True}),
        ("Adadelta", {"weight_decay": 0.1}),
        ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ],
)
def test_updates_together_have_the_same_bits(name: str, options: dict[str, object]) -> None:
    draw = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(40 * i + 7, generator=draw) for i in range(4)] for _ in range(12)]
    found = []
    for is_together in (False, True):
        values = [torch.nn.Parameter(torch.ones_like(one)) for one in gradients[0]]
        optimizer = getattr(torch.optim, name)(values, **options)
        if is_together:
            optimizer.param_groups = list(map(updates.together, optimizer.param_groups))
        for step in gradients:
            for value, gradient in zip(values, step, strict=True):
                value.grad = gradient.clone()
            optimizer.step()
            for value, gradient in zip(values, step, strict=True):
                assert torch.equal(value.grad, gradient)
        found.append([value.detach() for value in values])
    assert all(map(torch.equal, *found))
    assert name in updates.SAME_TOGETHER


@pytest.mark.parametrize("kind", ["mlp", "cnn", "transformer"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize(("optimizer", "dtype"), [("nesterov", "float32"), ("adamw", "float64")])
def test_ranks(kind: str, count: int, optimizer: str, dtype: str) -> None:
    check(kind, optimizer, count, dtype, POLICIES[0])


@pytest.mark.parametrize("policy", ["dear,bucket=64KiB", "ddp,bucket=64KiB", EARLY])
def test_tensors_that_are_cut(policy: str) -> None:
    members = [Member("", one, 0, 0) for one in make_model("wide").parameters()]
    layout = Layout(members, Rules(3, False), lambda size, dtype, _: torch.empty(size, dtype=dtype))
    assert [len(atoms) for atoms in layout.atoms_by_member()] == [4, 1, 2, 1]
    check("wide", "adamw", 3, "float64", policy)


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_policies(policy: str) -> None:
    check("transformer", "nesterov", 3, "float64", policy, costs=None)


@pytest.mark.parametrize(
    "optimizer",
    [
        "sgd",
        "adam",
        "amsgrad",
        "adamax",
        "nadam",
        "radam",
        "adagrad",
        "adadelta",
        "asgd",
        "rmsprop",
        "rprop",
    ],
)
@pytest.mark.parametrize("gather", ["parameters", "gradients"])
def test_elementwise_optimizers(optimizer: str, gather: str) -> None:
    check("mlp", optimizer, 2, "float64", POLICIES[0], gather=gather)


@pytest.mark.parametrize("optimizer", ["adafactor", "muon"])
@pytest.mark.parametrize("options", [{}, {"gather": "gradients"}])
def test_optimizers_of_whole_tensors(optimizer: str, options: dict[str, str]) -> None:
    check(
        "weights" if optimizer == "muon" else "cnn", optimizer, 3, "float64", POLICIES[0], **options
    )


def test_an_elementwise_optimizer_may_be_run_by_owners() -> None:
    check("mlp", "adamw", 3, "float64", OWNERS)


if LONG:

    @pytest.mark.parametrize("kind", ["mlp", "cnn", "transformer"])
    @pytest.mark.parametrize("count", [1, 2, 3, 4])
    @pytest.mark.parametrize(
        ("optimizer", "dtype"),
        [
            ("sgd", "float32"),
            ("sgd", "float64"),
            ("nesterov", "float32"),
            ("nesterov", "float64"),
            ("adam", "float64"),
            ("adamw", "float64"),
        ],
    )
    @pytest.mark.parametrize("policy", POLICIES)
    def test_everything(kind: str, count: int, optimizer: str, dtype: str, policy: str) -> None:
        check(kind, optimizer, count, dtype, policy)
