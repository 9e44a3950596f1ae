"""What PyTorch builds on process groups, on Pleach and on Gloo: run by ranks, compared."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch._dynamo  # as the first optimizer does: no rank has to
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from backend_ranks import gloo
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel


def make_model(seed: int = 7) -> nn.Module:
    """Returns a network of odd sizes, the same on whichever device is the default one."""
    torch.manual_seed(seed)
    with torch.device("cpu"):
        model = nn.Sequential(
            nn.Linear(13, 37), nn.ReLU(), nn.Linear(37, 11), nn.BatchNorm1d(11), nn.Linear(11, 5)
        )
    return model.to(torch.get_default_device())


def is_on_host() -> bool:
    """Whether tensors are made there: Gloo's functional collectives crash on a GPU's."""
    return torch.get_default_device().type == "cpu"


def batches(rank: int, count: int = 4) -> list[torch.Tensor]:
    """Returns a rank's inputs."""
    generator = torch.Generator().manual_seed(100 + rank)
    return [
        torch.randn(6, 13, generator=generator, device="cpu").to(torch.get_default_device())
        for _ in range(count)
    ]


def train(model: nn.Module, optimizer: Any, rank: int) -> list[torch.Tensor]:
    """Returns the parameters after a few steps."""
    for batch in batches(rank):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def assert_close(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    """Compares what was trained: sums of other orders differ in the last bits."""
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def data_parallel(rank: int) -> None:
    """DistributedDataParallel, with unused parameters, buffers and small buckets too."""

    def run(group: dist.ProcessGroup, **options: Any) -> list[torch.Tensor]:
        model = DistributedDataParallel(make_model(rank), process_group=group, **options)
        return train(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), rank)

    for options in ({}, {"bucket_cap_mb": 0.001}, {"find_unused_parameters": True},
                    {"gradient_as_bucket_view": True, "static_graph": True}):  # fmt: skip
        assert_close(run(dist.group.WORLD, **options), run(gloo(), **options))


def hooks(rank: int) -> None:
    """DDP's communication hooks."""

    def run(group: dist.ProcessGroup, hook: str) -> list[torch.Tensor]:
        torch.manual_seed(5)
        # PowerSGD's callbacks start collectives: of several buckets in any order, on any backend.
        bucket_mb = 25 if hook == "powerSGD" else 0.001
        model = DistributedDataParallel(make_model(), process_group=group, bucket_cap_mb=bucket_mb)
        if hook == "powerSGD":
            state = powerSGD_hook.PowerSGDState(
                group, matrix_approximation_rank=1, start_powerSGD_iter=2, random_seed=3
            )
            model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        else:
            model.register_comm_hook(group, getattr(default_hooks, hook))
        return train(model, torch.optim.SGD(model.parameters(), 0.1), rank)

    for hook in ("allreduce_hook", "powerSGD"):
        assert_close(run(dist.group.WORLD, hook), run(gloo(), hook))
    ours = run(dist.group.WORLD, "fp16_compress_hook")
    torch.testing.assert_close(ours, run(gloo(), "fp16_compress_hook"), rtol=0.02, atol=0.02)


def sharded_optimizer(rank: int) -> None:
    """ZeroRedundancyOptimizer, which broadcasts from each rank in turn, and moves objects."""

    def run(group: dist.ProcessGroup) -> list[torch.Tensor]:
        model = DistributedDataParallel(make_model(), process_group=group)
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.SGD, process_group=group, lr=0.1, momentum=0.9
        )
        trained = train(model, optimizer, rank)
        optimizer.consolidate_state_dict(0)
        assert rank != 0 or optimizer.state_dict()["state"]
        return trained

    assert_close(run(dist.group.WORLD), run(gloo()))


def fully_sharded(rank: int, own_memory: bool) -> None:
    """FSDP2, with buffers of the backend's memory where asked for."""
    count = dist.get_world_size()

    def run(group: dist.ProcessGroup, allocates: bool) -> list[torch.Tensor]:
        mesh = DeviceMesh.from_group(group, torch.get_default_device().type)
        model = make_model()
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if allocates:
            for module in model.modules():
                if isinstance(module, FSDPModule):
                    module.set_allocate_memory_from_process_group_for_comm(True)
        train(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), rank)
        return [parameter.full_tensor().detach() for parameter in model.parameters()]

    assert count == dist.get_world_size()
    assert_close(run(dist.group.WORLD, own_memory), run(gloo(), False))


def mesh(rank: int) -> None:
    """A mesh of two dimensions: a group for each row and column, and FSDP2 with replicas."""
    count = dist.get_world_size()
    device = torch.get_default_device().type
    grid = dist.init_device_mesh(device, (2, count // 2), mesh_dim_names=("replicas", "shards"))
    row, column = grid.get_group("shards"), grid.get_group("replicas")
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=row)
    assert tensor.item() == sum(dist.get_process_group_ranks(row))
    dist.all_reduce(tensor, group=column)
    assert tensor.item() == sum(range(count))
    model = make_model()
    alone = copy.deepcopy(model)
    fully_shard(model, mesh=grid)
    batch = batches(0)[0]
    model(batch).sum().backward()
    alone(batch).sum().backward()
    for sharded, whole in zip(model.parameters(), alone.parameters(), strict=True):
        assert sharded.grad is not None
        torch.testing.assert_close(sharded.grad.full_tensor(), whole.grad, rtol=1e-4, atol=1e-5)


def functional_collectives(rank: int) -> None:
    """Functional collectives, with gradients, and compiled."""
    for name in ("SUM", "AVG", "MAX"):
        both = [
            functional.all_reduce(torch.full((7,), rank + 1.0), name, group)
            for group in (dist.group.WORLD, gloo())
        ]
        torch.testing.assert_close(functional.wait_tensor(both[0]), functional.wait_tensor(both[1]))
    for group in (dist.group.WORLD, gloo()) if is_on_host() else (dist.group.WORLD,):
        count = dist.get_world_size()
        mine = torch.arange(6.0).reshape(3, 2) + rank
        gathered = functional.all_gather_tensor(mine, 1, group)
        expected = torch.cat([torch.arange(6.0).reshape(3, 2) + one for one in range(count)], 1)
        torch.testing.assert_close(functional.wait_tensor(gathered), expected)
        whole = torch.arange(4.0 * count).reshape(2 * count, 2)
        part = functional.reduce_scatter_tensor(whole, "SUM", 0, group)
        expected = whole[2 * rank : 2 * rank + 2] * count
        torch.testing.assert_close(functional.wait_tensor(part), expected)
        exchanged = functional.all_to_all_single(torch.full((count,), rank), None, None, group)
        assert functional.wait_tensor(exchanged).tolist() == list(range(count))
        several = functional.all_reduce_coalesced([torch.ones(2), torch.ones(3)], "SUM", group)
        assert [functional.wait_tensor(one)[0].item() for one in several] == [count, count]
        gathered = functional.all_gather_into_tensor_coalesced([torch.ones(2), mine], group)
        assert functional.wait_tensor(gathered[0]).tolist() == [1.0] * (2 * count)
        functional.wait_tensor(gathered[1])
        parts = functional.reduce_scatter_tensor_coalesced([whole, whole * 2], "SUM", [0, 0], group)
        torch.testing.assert_close(functional.wait_tensor(parts[1]), expected * 2)
        functional.wait_tensor(parts[0])
        broadcast = functional.broadcast(torch.full((2,), rank), 1, group)
        assert functional.wait_tensor(broadcast).tolist() == [1, 1]


def sharded_tensors(rank: int) -> None:
    """DTensor: uneven shards, redistribution, a product of sharded matrices."""
    count = dist.get_world_size()
    group = dist.group.WORLD
    assert group is not None
    grid = DeviceMesh.from_group(group, torch.get_default_device().type)
    whole = torch.arange(35.0).reshape(7, 5)
    sharded = distribute_tensor(whole, grid, [Shard(0)])
    torch.testing.assert_close(sharded.full_tensor(), whole)
    torch.testing.assert_close(sharded.redistribute(grid, [Shard(1)]).full_tensor(), whole)
    torch.testing.assert_close(sharded.redistribute(grid, [Replicate()]).to_local(), whole)
    other = distribute_tensor(whole.t().contiguous(), grid, [Shard(0)])
    product = sharded.redistribute(grid, [Shard(1)]) @ other
    torch.testing.assert_close(product.full_tensor(), whole @ whole.t())
    assert product.sum().full_tensor().item() == (whole @ whole.t()).sum().item()
    assert count == grid.size()


def coalesced(rank: int) -> None:
    """The coalescing manager, on collectives that have a coalesced form."""
    count = dist.get_world_size()
    tensors = [torch.full((one + 1,), rank + 1.0) for one in range(4)]
    with dist.distributed_c10d._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert all(tensor[0].item() == sum(range(1, count + 1)) for tensor in tensors)
    outputs = [torch.empty(count * one) for one in (1, 2, 3)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        for number, output in enumerate(outputs, 1):
            dist.all_gather_into_tensor(output, torch.full((number,), float(rank)))
    manager.wait()
    assert outputs[2].tolist() == [float(one) for one in range(count) for _ in range(3)]


def debugged(rank: int, folder: str, count: int) -> str:
    """Returns what TORCH_DISTRIBUTED_DEBUG=DETAIL says of a mismatch over our backend."""
    store = dist.FileStore(f"{folder}/debug", count)
    dist.init_process_group("pleach", store=store, rank=rank, world_size=count)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    dist.broadcast(tensor, 1)
    dist.barrier()
    assert tensor.tolist() == [count] * 3
    model = DistributedDataParallel(make_model())
    train(model, torch.optim.SGD(model.parameters(), 0.1), rank)
    try:
        dist.all_reduce(torch.ones(3 + rank))
    except RuntimeError as error:
        return str(error)
    return ""


# What every rank holds to Gloo by itself.
AS_ON_GLOO = (
    data_parallel,
    hooks,
    sharded_optimizer,
    functional_collectives,
    sharded_tensors,
    coalesced,
    mesh,
)
