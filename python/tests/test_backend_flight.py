# timeout_s: 400
from __future__ import annotations

import pickle
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import backend_flight
from rank_pool import RankPool


def read(folder: Path) -> str:
    """What PyTorch's reader says of the files."""
    with RankPool(1, "") as reader:
        (said,) = reader.run(backend_flight.read, str(folder))
    return said


def test_what_went_well_is_read_without_a_complaint(tmp_path: Path) -> None:
    with RankPool(2, "pleach") as pool:
        pool.run(backend_flight.go_well, str(tmp_path))
    dump = pickle.loads((tmp_path / "pleach_rank_1").read_bytes())
    assert dump["version"] == "2.10"
    names = [entry["profiling_name"] for entry in dump["entries"]]
    assert names[:3] == ["gloo:all_reduce", "gloo:all_gather", "gloo:_reduce_scatter_base"]
    assert all(entry["state"] == "completed" for entry in dump["entries"])
    assert [entry["collective_seq_id"] for entry in dump["entries"][:3]] == [1, 2, 3]
    text = read(tmp_path)
    assert "mismatch" not in text.lower()
    assert "missing" not in text.lower()


def test_a_mismatch_is_read_with_both_sides(tmp_path: Path) -> None:
    with RankPool(2, "pleach") as pool:
        pool.run(backend_flight.differ, str(tmp_path))
    text = read(tmp_path)
    assert "[[5]]" in text
    assert "[[7]]" in text


def test_who_has_not_come_is_read(tmp_path: Path) -> None:
    with RankPool(3, "pleach") as pool:
        pool.run(backend_flight.miss, str(tmp_path))
    text = read(tmp_path)
    assert "{2}" in text or "[2]" in text, text
