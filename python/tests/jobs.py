"""Processes that are the ranks of a job, each running a function of a test."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import pleach

DEADLINE_S = 60.0


def _rank_main(
    function: Callable[..., Any],
    given: tuple[Any, ...],
    options: dict[str, Any],
    report: Connection,
) -> None:
    try:
        with pleach.Endpoint(**options) as endpoint:
            report.send((None, function(endpoint, *given)))
    except BaseException:
        report.send((traceback.format_exc(), None))


def start(
    rank_count: int, function: Callable[..., Any], *given: Any, **options: Any
) -> tuple[list[BaseProcess], list[Connection]]:
    """Starts the ranks, and returns them, and where each says what it returned."""
    context = multiprocessing.get_context("fork")
    port, descriptor = pleach.listen()
    processes: list[BaseProcess] = []
    reports: list[Connection] = []
    for rank in range(rank_count):
        here, there = context.Pipe(duplex=False)
        own = {"rank_count": rank_count, "rank": rank, "store_port": port, "deadline_s": 20}
        if rank == 0:
            own["listen_descriptor"] = descriptor
        process = context.Process(
            target=_rank_main, args=(function, given, {**own, **options}, there), daemon=True
        )
        process.start()
        there.close()
        processes.append(process)
        reports.append(here)
    os.close(descriptor)
    return processes, reports


def run(rank_count: int, function: Callable[..., Any], *given: Any, **options: Any) -> list[Any]:
    """Runs `function(endpoint, *given)` on every rank of a job of this host.

    Args:
        rank_count: Of the job.
        function: What they run.
        given: Its other arguments.
        options: Of the endpoints.

    Returns:
        What it returns, by rank.
    """
    processes, reports = start(rank_count, function, *given, **options)
    try:
        return _results(reports)
    finally:
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()


def _results(reports: list[Connection]) -> list[Any]:
    results: list[Any] = [None] * len(reports)
    left = {report: rank for rank, report in enumerate(reports)}
    while left:
        ready = wait(list(left), DEADLINE_S)
        assert ready, f"ranks {sorted(left.values())} have not answered in {DEADLINE_S} s"
        for report in ready:
            assert isinstance(report, Connection)
            rank = left.pop(report)
            try:
                error, results[rank] = report.recv()
            except EOFError:
                error = "it ended without a word"
            assert error is None, f"rank {rank}: {error}"
    return results
