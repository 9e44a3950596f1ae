#!/usr/bin/env python3
"""What a training gains by a faster network, and what by a better policy on the network it has.

python3 which_network.py [--workload resnet50] [--ranks 16]
"""

import argparse

import pleach

BANDWIDTHS = ("1GB/s", "3GB/s", "12.5GB/s")
POLICIES = ("ddp", "dear", "work_conserving")


def main() -> None:
    """Prints an iteration's time for each network and policy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="resnet50")
    parser.add_argument("--ranks", type=int, default=16)
    options = parser.parse_args()

    print("network   " + "".join(f"{policy:>18}" for policy in POLICIES))
    for bandwidth in BANDWIDTHS:
        training = pleach.train(
            options.workload,
            ranks=options.ranks,
            costs="alpha_beta",
            alpha="15us",
            bandwidth=bandwidth,
            policy=POLICIES,
        )
        times = [f"{training.row(policy).iteration_s * 1e3:15.1f} ms" for policy in POLICIES]
        print(f"{bandwidth:<10}" + "".join(times))


if __name__ == "__main__":
    main()
