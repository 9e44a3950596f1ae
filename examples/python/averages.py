#!/usr/bin/env python3
"""Ranks average arrays, overlapping what travels with what they compute.

pleach launch -n 4 -- python3 averages.py     (or torchrun, mpirun, srun)
"""

import numpy as np

import pleach

STEPS, ELEMENTS = 5, 1_000_003


def main() -> None:
    """Averages one array while the next one is made."""
    with pleach.Endpoint() as endpoint, endpoint.communicator() as ranks:
        # Of memory that the other ranks of the host read where it stands.
        arrays = [pleach.empty(ELEMENTS, np.float32) for _ in range(2)]
        travelling: pleach.Operation | None = None
        for step in range(STEPS):
            array = arrays[step % 2]
            array[:] = step + ranks.rank
            if travelling is not None:
                travelling.wait()
            travelling = ranks.start("all_reduce", array, array, op="average")
        assert travelling is not None
        average = travelling.wait()
        expected = STEPS - 1 + (ranks.rank_count - 1) / 2
        assert np.allclose(average, expected)
        if ranks.rank == 0:
            print(f"{ranks.rank_count} ranks over {endpoint.transport} agree on {average[0]}")


if __name__ == "__main__":
    main()
