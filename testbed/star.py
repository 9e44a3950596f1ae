#!/usr/bin/env python3
"""A star of emulated hosts on this machine: one switch, and a link of a given rate to each.

    python3 testbed/star.py up 4 --rate 200Mbit         four hosts, 10.88.0.1 to 10.88.0.4
    python3 testbed/star.py measure                     what the links carry, two by two
    python3 testbed/star.py exec 0 -- ping 10.88.0.2    one command on one host
    python3 testbed/star.py run -- python3 train.py     one on each, as rank 0, 1, 2 and 3
    python3 testbed/star.py down                        ends what runs there, removes all

A host is a network namespace, the switch a bridge in one of its own, a link a pair of virtual
interfaces whose ends both let `--rate` through. Commands find RANK, WORLD_SIZE, LOCAL_RANK,
MASTER_ADDR and MASTER_PORT set as torchrun sets them, and the names of the interface for Gloo and
Pleach. Several stars stand beside each other under their `--name`. From Python:

    with Star(4, "200Mbit") as star:
        ended = star.run(["python3", "train.py"], timeout_s=60)

Needs root and iproute2. Exit codes: 0 done, 1 failed, 2 usage, 77 not possible here, with the
reason on stderr.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from testbed import namespaces  # noqa: E402
from testbed.namespaces import Network, Unavailable  # noqa: E402

HUB, CARD = "hub", "card"
HOST_COUNT_MAX = 250
PORT = 29500
NOT_POSSIBLE = 77
POLL_S = 0.02


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a rank's command ended.

    Attributes:
        rank: Whose.
        code: Its exit status, negative for a signal.
        output: What it wrote to stdout.
        errors: And to stderr.
    """

    rank: int
    code: int
    output: str
    errors: str


class Star:
    """Hosts around a switch, as a context that removes them at its end.

    Args:
        rank_count: Hosts, 1 to 250.
        rate: What each end of each link lets through, such as `200Mbit`.
        name: For `up` and `down`; one of this process's own without it. A star of one's own that
            a killed process left behind is removed when the next one is made.
        burst_bytes: What an idle link lets through at once.
    """

    def __init__(
        self, rank_count: int, rate: str, name: str | None = None,
        burst_bytes: int = namespaces.BURST_BYTES,
    ):
        if not 1 <= rank_count <= HOST_COUNT_MAX:
            raise ValueError(f"{rank_count} is no number of hosts from 1 to {HOST_COUNT_MAX}")
        namespaces.bits_per_s(rate)
        self.rank_count = rank_count
        self.rate = rate
        self.network = Network(
            f"star-{name}" if name else namespaces.owned_name("star"),
            [HUB, *map(str, range(rank_count))],
        )
        self._burst_bytes = burst_bytes

    def __enter__(self) -> Star:
        namespaces.remove_leftovers()
        try:
            self.make()
        except BaseException:
            self.network.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.network.remove()

    def make(self) -> None:
        """Makes it; returns when every cable is up.

        Raises:
            Unavailable: It may not be made, or one of its name exists.
        """
        self.network.make()
        hub = self.network.namespace(HUB)
        # The whole of the star is known: no spanning tree, which would keep ports shut for long.
        namespaces.ip("-n", hub, "link", "add", "bridge", "type", "bridge", "stp_state", "0",
                      "forward_delay", "0")
        namespaces.ip("-n", hub, "link", "set", "bridge", "up")
        for rank in range(self.rank_count):
            host, port = str(rank), f"port{rank}"
            self.network.cable(host, CARD, HUB, port)
            namespaces.ip("-n", hub, "link", "set", port, "master", "bridge")
            namespaces.ip("-n", self.network.namespace(host), "address", "add",
                          f"{address(rank)}/24", "dev", CARD)
            self.network.limit_rate(host, CARD, self.rate, self._burst_bytes)
            self.network.limit_rate(HUB, port, self.rate, self._burst_bytes)
        ranks = range(self.rank_count)
        self.network.wait_until_up([
            (HUB, "bridge"), *((HUB, f"port{rank}") for rank in ranks),
            *((str(rank), CARD) for rank in ranks),
        ])

    def environment(self, rank: int) -> dict[str, str]:
        """What a rank's command finds set, beside what this process has."""
        return {
            "RANK": str(rank), "WORLD_SIZE": str(self.rank_count), "LOCAL_RANK": "0",
            "MASTER_ADDR": address(0), "MASTER_PORT": str(PORT),
            "GLOO_SOCKET_IFNAME": CARD, "PLEACH_SOCKET_IFNAME": f"={CARD}",
            "PLEACH_NETWORK": f"{namespaces.bits_per_s(self.rate) / 1e3:.0f}kb/s",
        }

    def start(
        self, rank: int, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Starts a command as that rank. It ends with the thread that starts it."""
        return self.network.start(
            str(rank), command, {**self.environment(rank), **(environment or {})}
        )

    def run(
        self, command: Sequence[str], timeout_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> list[Ended]:
        """Runs a command as every rank, and ends the others when one fails.

        Args:
            command: Program and arguments.
            timeout_s: When those that have not ended are ended by force.
            environment: Variables beside those that `environment` gives.

        Returns:
            By rank.

        Raises:
            TimeoutError: Ranks were still running; they are named.
        """
        ranks = [self.start(rank, command, environment) for rank in range(self.rank_count)]
        return wait_for(ranks, timeout_s)


def address(rank: int) -> str:
    """A host's address."""
    return f"10.88.0.{rank + 1}"


def _late(ranks: Sequence[subprocess.Popen[str]], end: float) -> list[int]:
    """Returns when all have ended or one has failed; the ranks that still run at the time `end`."""
    while None in (codes := [rank.poll() for rank in ranks]):
        if any(codes):
            time.sleep(0.5)  # What fails on one rank is said by the others too: let them.
            return []
        if time.monotonic() > end:
            return [rank for rank, code in enumerate(codes) if code is None]
        time.sleep(POLL_S)
    return []


def wait_for(
    ranks: Sequence[subprocess.Popen[str]], timeout_s: float,
    tell: Callable[[int, str], None] | None = None,
) -> list[Ended]:
    """The ends of all; see Star.run. `tell` gets every line with its rank as soon as it comes."""
    texts: dict[tuple[int, str], list[str]] = {}

    def read(rank: int, which: str) -> None:
        lines = texts.setdefault((rank, which), [])
        with getattr(ranks[rank], which) as stream:
            for line in stream:
                lines.append(line)
                if tell:
                    tell(rank, line)

    readers = [threading.Thread(target=read, args=(rank, which), daemon=True)
               for rank in range(len(ranks)) for which in ("stdout", "stderr")]
    for reader in readers:
        reader.start()
    try:
        late = _late(ranks, time.monotonic() + timeout_s)
    finally:
        for rank in ranks:
            namespaces.end(rank)
    for reader in readers:
        reader.join(namespaces.END_S)
    if late:
        said = " ".join("".join(texts.get((late[0], "stderr"), []))[-500:].split())
        raise TimeoutError(f"ranks {late} have not ended after {timeout_s:g} s; rank {late[0]} "
                           f"said: {said or 'nothing'}")
    return [Ended(i, rank.returncode, "".join(texts.get((i, "stdout"), [])),
                  "".join(texts.get((i, "stderr"), []))) for i, rank in enumerate(ranks)]


_RECEIVE = """
import socket, sys, time
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
listener.settimeout(20)
connection = listener.accept()[0]
connection.settimeout(20)
first = begin = count = 0
while data := connection.recv(1 << 20):
    now = time.monotonic()
    first = first or now
    if begin:
        count += len(data)
    elif now - first > 0.3:  # what an idle link lets through at once is over
        begin = now
print(count * 8 / (now - begin))
"""
_SEND = """
import socket, sys, time
end = time.monotonic() + 20
while True:
    try:
        connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
        break
    except OSError:
        if time.monotonic() > end:
            raise
        time.sleep(0.01)
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    connection.sendall(bytes(1 << 16))
"""


def measure(star: Star, duration_s: float = 1.5) -> dict[str, float]:
    """What one TCP connection carries from each rank to the next, all of them at once.

    Args:
        star: With two hosts or more.
        duration_s: Of sending.

    Returns:
        Bits of payload per second, by `SOURCE-TARGET`. Headers take 4.4 % of a link.

    Raises:
        Unavailable: A connection failed.
    """
    count = star.rank_count
    if count < 2:
        raise ValueError("one host has nobody to send to")
    pairs = [(rank, (rank + 1) % count) for rank in range(count)]
    receivers = [star.start(target, [sys.executable, "-c", _RECEIVE, address(target), "29400"])
                 for _, target in pairs]
    senders = [star.start(source, [sys.executable, "-c", _SEND, address(target), "29400",
                                   str(duration_s)]) for source, target in pairs]
    rates = {}
    ends = wait_for([*receivers, *senders], duration_s + 60)
    for (source, target), ended in zip(pairs, ends, strict=False):
        if ended.code:
            raise Unavailable(f"{source}-{target}: {' '.join(ended.errors.split())[-200:]}")
        rates[f"{source}-{target}"] = float(ended.output)
    return rates


def find(name: str) -> Star:
    """The star that `up` made.

    Raises:
        Unavailable: There is none of that name, or only part of one.
    """
    for network in namespaces.networks():
        if network.name == f"star-{name}":
            count = len(network.hosts) - 1
            if sorted(network.hosts) != sorted([HUB, *map(str, range(count))]):
                raise Unavailable(f"star '{name}' is not whole: remove it (down --name {name})")
            return Star(count, "100Mbit", name)
    standing = [network.name.removeprefix("star-") for network in namespaces.networks()
                if network.name.startswith("star-")]
    raise Unavailable(f"there is no star '{name}'; there are: {', '.join(standing) or 'none'}")


def _up(arguments: argparse.Namespace) -> int:
    reason = namespaces.why_not()
    if reason:
        print(f"star: not possible here: {reason}", file=sys.stderr)
        return NOT_POSSIBLE
    made = Star(arguments.ranks, arguments.rate, arguments.name, arguments.burst)
    if any(network.name == made.network.name for network in namespaces.networks()):
        raise Unavailable(f"star '{arguments.name}' exists: remove it (down), or give this one "
                          "another --name")
    try:
        made.make()
    except BaseException:
        made.network.remove()
        raise
    print(f"star '{arguments.name}': {arguments.ranks} hosts, {address(0)} to "
          f"{address(arguments.ranks - 1)}, {arguments.rate} both ways")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    gone = namespaces.remove_leftovers()
    for network in namespaces.networks():
        if network.name == f"star-{arguments.name}":
            network.remove()
            gone.append(network.name)
    print(f"removed: {', '.join(name.removeprefix('star-') for name in gone) or 'nothing there'}")
    return 0


def _exec(arguments: argparse.Namespace) -> int:
    star = find(arguments.name)
    if not 0 <= arguments.rank < star.rank_count:
        raise ValueError(f"rank {arguments.rank} is not below {star.rank_count}")
    command = star.network.command(str(arguments.rank), arguments.command)
    os.execvpe(command[0], command, {**os.environ, **star.environment(arguments.rank)})


def _run(arguments: argparse.Namespace) -> int:
    star = find(arguments.name)
    ranks = [star.start(rank, arguments.command) for rank in range(star.rank_count)]

    def tell(rank: int, line: str) -> None:
        print(f"[{rank}] {line}", end="" if line.endswith("\n") else "\n", flush=True)

    ends = wait_for(ranks, arguments.timeout, tell)
    # Those that this program ended say less than the one that made it do so.
    failed = sorted((ended for ended in ends if ended.code), key=lambda one: one.code == -9)
    for ended in failed[:1]:
        print(f"star: rank {ended.rank} ended with {ended.code}", file=sys.stderr)
    return 1 if failed else 0


def _measure(arguments: argparse.Namespace) -> int:
    rates = measure(find(arguments.name))
    if arguments.json:
        print(json.dumps({"rows": [{"link": link, "goodput_bits_per_s": round(rate)}
                                   for link, rate in rates.items()]}))
    else:
        for link, rate in rates.items():
            print(f"{link}: {rate / 1e6:.1f} Mbit/s of payload")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")

    def add(verb: str, run: Callable[[argparse.Namespace], int], text: str,
            ) -> argparse.ArgumentParser:
        command = commands.add_parser(verb, help=text, description=text)
        command.add_argument("--name", default="star", help="which star (star)")
        command.set_defaults(run=run)
        return command

    up = add("up", _up, "makes a star, which stands until 'down'")
    up.add_argument("ranks", type=int, help="hosts, 1 to 250")
    up.add_argument("--rate", required=True, help="of each link, both ways: 200Mbit, 1Gbit")
    up.add_argument("--burst", type=int, default=namespaces.BURST_BYTES, metavar="BYTES",
                    help=f"what an idle link lets through at once ({namespaces.BURST_BYTES}); with "
                         "less packets are cut up in software, which is slow above 50 Mbit/s")
    add("down", _down, "ends what runs in a star and removes it, and what killed programs left "
                       "behind; fine where nothing is left")
    execute = add("exec", _exec, "runs a command on one host, in place of this program")
    execute.add_argument("rank", type=int, help="which host")
    execute.add_argument("command", nargs="+", help="after --")
    run = add("run", _run, "runs a command on all hosts; when one fails the others are ended")
    run.add_argument("--timeout", type=float, default=3600, metavar="SECONDS",
                     help="when ranks that still run are ended, and named (3600)")
    run.add_argument("command", nargs="+", help="after --")
    add("measure", _measure, "measures what the links carry").add_argument(
        "--json", action="store_true", help="one JSON object")
    return parser


def main() -> int:
    """Runs one command of the command line; its exit code."""
    arguments = _parser().parse_args()
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", arguments.name) or "owned." in arguments.name:
        print(f"star: '{arguments.name}' is no name for a star: a-z, 0-9, '_', '.', '-'",
              file=sys.stderr)
        return 2
    try:
        return int(arguments.run(arguments))
    except ValueError as error:
        print(f"star: {error}", file=sys.stderr)
        return 2
    except (Unavailable, TimeoutError) as error:
        print(f"star: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
