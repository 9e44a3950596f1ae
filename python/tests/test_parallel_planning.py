"""Profiles, costs, and what is chosen by them."""

# timeout_s: 300
from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_planning as planning  # noqa: E402
from rank_pool import training_pool  # noqa: E402

import pleach.torch  # noqa: E402
from pleach.torch.parallel import comparing  # noqa: E402

PLEACH = os.environ.get("PLEACH", "pleach")


def sleeping() -> torch.nn.Module:
    return torch.nn.Sequential(
        planning.Sleeping(0.01, 0.02), planning.Sleeping(0.03, 0.01), torch.nn.Linear(4, 4)
    )


def test_a_profile_has_what_layers_take(tmp_path: pathlib.Path) -> None:
    model = sleeping()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    profile = pleach.torch.profile(model, torch.ones(3, 4, requires_grad=True), name="sleeping")
    assert [layer.name for layer in profile.layers] == ["0", "1", "2"]
    assert profile.batch == 3
    first, second, _ = profile.layers
    assert first.forward_s == pytest.approx(0.01, rel=0.3)
    assert second.forward_s == pytest.approx(0.03, rel=0.2)
    assert first.backward_s == pytest.approx(0.02, rel=0.2)
    assert second.backward_s == pytest.approx(0.01, rel=0.3)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(
        torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True)
    )
    path = tmp_path / "sleeping.json"
    profile.save(path)
    described = json.loads(path.read_text())
    assert [layer["tensors"][0]["elements"] for layer in described["layers"]] == [100, 100, 16]


def test_watching_distorts_nothing() -> None:
    """Two percent; a machine that has other things to do gets three tries."""
    distortions = []
    while len(distortions) < 3 and not any(abs(one) <= 0.02 for one in distortions):
        profile = pleach.torch.profile(sleeping(), torch.ones(3, 4, requires_grad=True))
        distortions.append(profile.distortion)
    assert min(map(abs, distortions)) <= 0.02


def test_files_of_profiles_and_costs_are_simulated(tmp_path: pathlib.Path) -> None:
    profile, costs = tmp_path / "profile.json", tmp_path / "costs.json"
    pleach.torch.profile(sleeping(), torch.ones(3, 4, requires_grad=True)).save(profile)
    counts = training_pool().run(planning.costs, 2, str(costs), ranks=range(2))
    assert counts[0] == counts[1], "all have the slowest rank's times"
    kinds = {kind for kind, _, _ in counts[0][1]}
    assert kinds == {"all_reduce", "reduce_scatter", "all_gather"}
    words = [PLEACH, "train", "--workload", str(profile)]
    words += ["--costs", f"measured:{costs}", "--policy", "dear", "--json"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "dear" in ended.stdout


def test_a_plan_is_the_best_of_what_is_rehearsed() -> None:
    profile = pleach.torch.profile(sleeping(), torch.ones(3, 4, requires_grad=True))
    points = [
        (kind, size, (2 if kind == "all_reduce" else 1) * (0.001 + size * 1e-6))
        for kind in ("all_reduce", "reduce_scatter", "all_gather")
        for size in (1 << 8, 1 << 16)
    ]
    choice = pleach.torch.plan(profile, pleach.torch.Costs(4, tuple(points)))
    assert choice.iteration_s <= choice.others[0][1] * 1.006
    assert choice.policy in dict(choice.others)
    assert str(choice).count("\n") + 1 == len(choice.others) + len(choice.refused)
    only = pleach.torch.plan(profile, pleach.torch.Costs(4, tuple(points)), ["ddp", "horovod"])
    assert only.policy == "ddp"
    assert only.refused[0][0] == "horovod"
    with pytest.raises(ValueError, match="horovod"):
        pleach.torch.plan(profile, pleach.torch.Costs(4, tuple(points)), ["horovod"])


def test_a_policy_can_be_chosen_for_a_training() -> None:
    found = training_pool().run(planning.auto, ranks=range(2))
    assert found[0] == found[1]
    assert found[0][0] != "auto"
    assert found[0][1] <= 1e-12


def test_a_search_over_real_iterations() -> None:
    found = training_pool().run(planning.search, ranks=range(2))
    assert found[0] == found[1]
    assert len(found[0]) >= 2
    assert all(spec.startswith("dear,bucket=") for spec, _ in found[0])


def test_what_cannot_be_used_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text('{"format": "pleach-costs", "version": 1, "rank_count": 2}')
    with pytest.raises(ValueError, match=r"costs.json: 'points' is missing"):
        pleach.torch.Costs.load(path)
    path.write_text('{"format": "pleach-costs", "version": 2}')
    with pytest.raises(ValueError, match=r"costs.json: format 'pleach-costs', version 2"):
        pleach.torch.Costs.load(path)
    model = torch.nn.Linear(3, 2)
    model.register_buffer("mean", torch.empty(2, device="meta"))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(ValueError, match="buffer mean is on meta, and the parameters are on cpu"):
        comparing.check_model(model, optimizer)
    with pytest.raises(ValueError, match=r"gives a NoneType, .*: say loss="):
        pleach.torch.profile(_Silent(), torch.ones(1, 3))


class _Silent(torch.nn.Linear):
    """Gives nothing."""

    def __init__(self) -> None:
        super().__init__(3, 2)

    def forward(self, values: torch.Tensor) -> None:  # type: ignore[override]
        super().forward(values)
