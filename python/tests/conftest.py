"""Ranks are forked from a process as it is when all tests are collected: it has imported them."""

from __future__ import annotations

import os
import sys

import pytest

# Forks must be of one thread. numpy's library of linear algebra starts others when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_collection_finish(session: pytest.Session) -> None:
    if "rank_pool" in sys.modules and not session.config.option.collectonly:
        sys.modules["rank_pool"].server()


def pytest_unconfigure() -> None:
    if "rank_pool" in sys.modules:
        sys.modules["rank_pool"].close_all()
