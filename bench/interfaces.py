#!/usr/bin/env python3
"""Several sockets of a pair over several interfaces, really: as one JSON object.

    python3 bench/interfaces.py --pleach build/release/pleach [--check]

Two ranks in two network namespaces, with two pairs of virtual interfaces between them, each of
which lets a given rate through. One socket uses one of them and two use both, so that large
broadcasts take half the time. With --check the exit status is 1 where they do not. Where namespaces
may not be made, as without root, it says so and measures nothing.
"""
import argparse
import contextlib
import json
import pathlib
import secrets
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from testbed import namespaces  # noqa: E402

HOSTS = ["0", "1"]
RATE = "400Mbit"
SIZE = "8MiB"
LEAST_GAIN = 1.7
ROUNDS = 3


@contextlib.contextmanager
def network():
    """Two hosts with two shaped ways between them, or None where they may not be made."""
    made = namespaces.Network(namespaces.owned_name("interfaces"), HOSTS)
    try:
        try:
            made.make()
            ways = [f"way{way}" for way in range(2)]
            for way, interface in enumerate(ways):
                made.cable(HOSTS[0], interface, HOSTS[1], interface)
                for side, host in enumerate(HOSTS):
                    namespaces.ip("-n", made.namespace(host), "addr", "add",
                                  f"10.77.{way}.{side + 1}/24", "dev", interface)
                    made.limit_rate(host, interface, RATE)
            made.wait_until_up([(host, interface) for host in HOSTS for interface in ways])
        except namespaces.Unavailable as error:
            print(f"interfaces: no network namespaces here: {error}", file=sys.stderr)
            yield None
        else:
            yield made
    finally:
        made.remove()


def measure(made, pleach, sockets):
    """Seconds that a broadcast takes; a rank that fails says why, and ends the program."""
    common = {"PLEACH_RANK_COUNT": "2", "PLEACH_STORE": "10.77.0.1:29500",
              "PLEACH_SECRET": secrets.token_hex(32), "PLEACH_SOCKET_IFNAME": "way",
              "PLEACH_SOCKETS": str(sockets)}
    command = [pleach, "run", "--collective", "broadcast", "--algorithm", "direct", "--transport",
               "tcp", "--sizes", SIZE, "--iterations", "3", "--json"]
    ranks = [made.start(host, command, {**common, "PLEACH_RANK": host}) for host in HOSTS]
    outputs = [rank.communicate(timeout=120) for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit("".join(errors for _, errors in outputs))
    row = json.loads(outputs[0][0])["rows"][0]
    if row["wrong_count"]:
        sys.exit(f"interfaces: {row['wrong_count']} wrong elements")
    return row["time_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pleach", required=True, help="the binary, built for release")
    parser.add_argument("--check", action="store_true", help="hold the gain to its floor")
    arguments = parser.parse_args()
    with network() as made:
        if made is None:
            return 0
        gains = sorted(measure(made, arguments.pleach, 1) / measure(made, arguments.pleach, 2)
                       for _ in range(ROUNDS))
    gain = gains[ROUNDS // 2]
    print(json.dumps({"rate": RATE, "size": SIZE, "gain_of_two_sockets": round(gain, 2)}))
    if arguments.check and gain < LEAST_GAIN:
        print(f"interfaces: two sockets over two interfaces are {gain:.2f} times as fast as one, "
              f"not {LEAST_GAIN}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
