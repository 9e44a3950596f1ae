#!/usr/bin/env python3
"""An algorithm of one's own, in Python: written, proved, timed beside others, and saved.

An all_reduce on a line of ranks: halves of the buffer travel from either end to the other, reduced
on the way, and the results travel on. Any command takes the file: `pleach run line.json --ranks 6`.

    python3 own_schedule.py [--ranks 6] [--size 16MiB] [--output line.json]
"""

import argparse

import pleach


def both_ways(topology: pleach.Topology) -> pleach.Schedule:
    """Reduces chunk 0 upwards and chunk 1 downwards; each then goes back the way it came."""
    builder = pleach.ScheduleBuilder(topology, "all_reduce", chunk_count=2)
    last = builder.rank_count - 1
    for step in range(last):
        builder.send(step, step + 1, chunk=0, step=step, op="reduce")
        builder.send(last - step, last - step - 1, chunk=1, step=step, op="reduce")
        builder.send(last - step, last - step - 1, chunk=0, step=last + step)
        builder.send(step, step + 1, chunk=1, step=last + step)
    return builder.finish("both_ways", phase_steps=[last, last])


def main() -> None:
    """Writes the schedule and shows how it compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=6)
    parser.add_argument("--size", default="16MiB")
    parser.add_argument("--output")
    options = parser.parse_args()

    line = pleach.topology(f"mesh:{options.ranks},link=eth_25")
    schedule = both_ways(line)
    proof = pleach.verify(schedule, line)
    print(
        f"{schedule.algorithm}: {schedule.transfer_count} messages in {schedule.step_count} steps"
    )
    print(f"proved on {line.name}: contention free {proof.contention_free}")
    rows = pleach.compare(line, [schedule, "ring", "multitree"], [options.size]).rows
    for row in rows:
        name = schedule.algorithm if row.algorithm.endswith(".pleach") else row.algorithm
        share = row.fraction_of_bound or 0
        print(f"{name:<12} {row.time_ps / 1e9:9.3f} ms, {share:.1%} of the bound")
    if options.output:
        schedule.save(options.output)


if __name__ == "__main__":
    main()
