"""The command line of a benchmark of trainings on a star, and how it ends. No PyTorch."""
from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def make_parser(
    text: str, ranks: str, x: str, turns: int, measured: str
) -> argparse.ArgumentParser:
    """Makes a parser of what they have in common.

    Args:
        text: What the benchmark does.
        ranks: Of its stars, unless said otherwise.
        x: All_reduce over forward, unless said otherwise.
        turns: Of each that is measured, and as many iterations of a turn.
        measured: What that is called.
    """
    parser = argparse.ArgumentParser(description=text,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pleach", required=True, help="the binary; its Python package beside it")
    parser.add_argument("--python", help="with PyTorch (build/venv/bin/python)")
    parser.add_argument("--ranks", default=ranks, help=f"of the star ({ranks})")
    parser.add_argument("--x", default=x, help=f"all_reduce over forward ({x})")
    parser.add_argument("--rounds", type=int, default=turns,
                        help=f"turns of each {measured} ({turns})")
    parser.add_argument("--iterations", type=int, default=turns, help=f"of a turn ({turns})")
    parser.add_argument("--check", action="store_true", help="hold the claims")
    return parser


class Judged(list[dict[str, Any]]):
    """Claims, as `conclude` takes them."""

    @contextlib.contextmanager
    def attempt(self, **about: Any) -> Iterator[None]:
        """A measurement, in its `with` block: should it fail, that is a claim that does not hold.

        So that what was measured before is not lost, and what comes after it is measured.

        Args:
            about: What is measured.
        """
        try:
            yield
        except (RuntimeError, TimeoutError) as error:
            self.append({**about, "claim": "can be measured", "error": str(error), "holds": False})


def conclude(name: str, report: Mapping[str, Any], judged: Sequence[Mapping[str, Any]],
             check: bool) -> int:
    """Prints the report with its claims as JSON, and beside it those that do not hold.

    Args:
        name: The benchmark's.
        report: What was measured.
        judged: Claims, each of which says whether it `holds`.
        check: Whether they must.

    Returns:
        The exit status.
    """
    print(json.dumps({**report, "claims": judged}))
    missed = [one for one in judged if not one["holds"]]
    for one in missed:
        print(f"{name}: does not hold: {json.dumps(one)}", file=sys.stderr)
    return 1 if check and missed else 0
