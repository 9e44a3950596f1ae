"""The flat space: every element in one place, atoms shared evenly, views that are tensors."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")

from pleach.torch.parallel.layout import Layout, Member, Rules, dense_strides  # noqa: E402
from pleach.torch.parallel.updates import shard_units, whole_units  # noqa: E402


def allocate(size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.full((size,), float("nan"), dtype=dtype, device=device)


def random_members(draw: random.Random) -> list[Member]:
    members, layer = [], 0
    for index in range(draw.randint(1, 30)):
        shape = tuple(draw.choice([1, 2, 3, 5, 7, 16]) for _ in range(draw.randint(0, 3)))
        if draw.random() < 0.1:
            shape = (draw.randint(20_000, 300_000),)
        dtype = draw.choice([torch.float32] * 5 + [torch.float64, torch.bfloat16])
        tensor = torch.arange(float(torch.Size(shape).numel())).reshape(shape).to(dtype)
        if len(shape) == 3 and draw.random() < 0.5:
            tensor = tensor.permute(2, 0, 1)
        members.append(Member(f"p{index}", torch.nn.Parameter(tensor), layer, draw.randint(0, 1)))
        layer += draw.random() < 0.6
    last = -1
    renumbered: dict[int, int] = {}
    for member in members:
        if member.layer not in renumbered:
            last += 1
            renumbered[member.layer] = last
    return [Member(one.name, one.parameter, renumbered[one.layer], one.group) for one in members]


@pytest.mark.parametrize("seed", range(60))
def test_every_element_lies_in_one_place(seed: int) -> None:
    draw = random.Random(seed)
    members = random_members(draw)
    ranks = draw.choice([1, 2, 3, 4, 5, 7, 8])
    keeps = draw.random() < 0.3
    values = [one.parameter.detach().clone() for one in members]
    layout = Layout(members, Rules(ranks, keeps), allocate)
    layout.adopt()
    for one, value in zip(members, values, strict=True):
        assert torch.equal(one.parameter, value), one.name
        assert one.parameter.stride() == value.stride()
    owners = [
        torch.zeros(buffer.parameters.numel(), dtype=torch.int32) for buffer in layout.buffers
    ]
    ends = [0] * len(layout.buffers)
    for atom in layout.atoms:
        assert atom.place == ends[atom.buffer]
        ends[atom.buffer] += atom.size
        used = sum(part.length for part in atom.parts)
        assert used <= atom.size < used + ranks
        if keeps:
            assert sorted(atom.shares)[:-1] == [0] * (ranks - 1)
            assert all(part.length == members[part.member].parameter.numel() for part in atom.parts)
        else:
            assert len(set(atom.shares)) == 1
        for part in atom.parts:
            owners[atom.buffer][part.place : part.place + part.length] += 1
    assert ends == [buffer.parameters.numel() for buffer in layout.buffers]
    assert all(int(owner.max()) == 1 for owner in owners)
    assert sum(int(owner.sum()) for owner in owners) == sum(one.numel() for one in values)
    assert len(layout.atoms) <= 1024
    assert sum(map(sum, layout.tensor_bytes())) == sum(layout.atom_bytes())


@pytest.mark.parametrize("seed", range(30))
def test_units_are_each_element_once_over_the_ranks(seed: int) -> None:
    draw = random.Random(seed)
    members = random_members(draw)
    ranks = draw.choice([1, 2, 3, 8])
    keeps = draw.random() < 0.5
    layout = Layout(members, Rules(ranks, keeps), allocate)
    layout.adopt()
    counts = [torch.zeros(one.parameter.numel(), dtype=torch.int32) for one in members]
    for rank in range(ranks):
        units = whole_units(layout, rank) if keeps else shard_units(layout, rank)
        for unit in units:
            counts[unit.member][unit.begin : unit.begin + unit.values.numel()] += 1
            if not keeps:
                flat = members[unit.member].parameter.as_strided(
                    (members[unit.member].parameter.numel(),), (1,)
                )
                assert torch.equal(unit.values, flat[unit.begin : unit.begin + unit.values.numel()])
            assert unit.gradient.shape == unit.values.shape
    assert all(torch.equal(one, torch.ones_like(one)) for one in counts)


def test_strides_of_what_fills_a_stretch_are_kept() -> None:
    image = torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert dense_strides(image) == image.stride()
    assert dense_strides(torch.zeros(4, 6).t()) == (1, 6)
    assert dense_strides(torch.zeros(4, 6)[:, ::2]) == (3, 1)
    assert dense_strides(torch.zeros(1).expand(5)) == (1,)
    assert dense_strides(torch.zeros(())) == ()
