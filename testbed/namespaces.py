"""Network namespaces that stand for hosts, and cables of a given rate between them.

A network's namespaces are named `pleach-NETWORK-HOST`, and that name is all the state there is:
what was made can be found, used and removed by another process, also after its maker was killed.
Names that `owned_name` gives say which process they belong to, so that `remove_leftovers` can tell
those that nobody needs any more.
"""
from __future__ import annotations

import ctypes
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

PREFIX = "pleach-"
FOLDER = pathlib.Path("/run/netns")
# A larger packet than the bucket holds would be cut up in software, at a third of the rate: with
# segmentation offload packets have up to 65,536 bytes.
BURST_BYTES = 70000
UP_S = 10.0
END_S = 5.0
COMMAND_S = 30.0
_serial = itertools.count()
_libc = ctypes.CDLL(None)


class Unavailable(Exception):
    """Networks cannot be made here; the text says why, in one line."""


def ip(*words: str) -> str:
    """What `ip` prints with those words.

    Raises:
        Unavailable: It failed, or is not there.
    """
    return _tool("ip", *words)


def _tool(*command: str) -> str:
    try:
        return subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=COMMAND_S
        ).stdout
    except FileNotFoundError:
        raise Unavailable(f"{command[0]} is not installed (Debian: iproute2)") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command)}: no answer in {COMMAND_S:g} s") from None
    except subprocess.CalledProcessError as error:
        reason = " ".join(error.stderr.split()) or f"exit {error.returncode}"
        raise Unavailable(f"{' '.join(command)}: {reason}") from None


def bits_per_s(rate: str) -> float:
    """The bits per second of a rate such as `200Mbit` or `1.5Gbit`.

    Raises:
        ValueError: It is no rate above zero.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)bit(?:/s)?", rate.strip().lower())
    value = float(match[1]) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[match[2]] if match else 0.0
    if value < 1e5:
        raise ValueError(f"'{rate}' is no rate from 100kbit on, such as 200Mbit or 1.5Gbit")
    return value


def _start_ticks(process_id: int) -> str | None:
    """When the process started, so that one of the same id is told from it; None: no such one."""
    try:
        fields = pathlib.Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def owned_name(kind: str) -> str:
    """A name that no other network has, and that ends with this process."""
    own = os.getpid()
    return f"{kind}-owned.{own}.{_start_ticks(own)}.{next(_serial)}"


class Network:
    """Namespaces of one name, as a context that removes them at its end.

    Attributes:
        name: Of the network.
        hosts: Their names, which are unique within it.
    """

    def __init__(self, name: str, hosts: Sequence[str]):
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name):
            raise ValueError(f"'{name}' is no name of a network: a-z, 0-9, '_', '.' and '-'")
        self.name = name
        self.hosts = list(hosts)

    def __enter__(self) -> Network:
        try:
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def namespace(self, host: str) -> str:
        """The host's namespace, as `ip netns` knows it."""
        return f"{PREFIX}{self.name}-{host}"

    def existing(self) -> list[str]:
        """Those of its namespaces that there are."""
        names = [self.namespace(host) for host in self.hosts]
        return [name for name in names if (FOLDER / name).exists()]

    def make(self) -> None:
        """Makes the namespaces, with nothing in them but a loopback that is up.

        Raises:
            Unavailable: They exist already, or may not be made.
        """
        for host in self.hosts:
            ip("netns", "add", self.namespace(host))
            ip("-n", self.namespace(host), "link", "set", "lo", "up")

    def cable(self, host: str, interface: str, other_host: str, other_interface: str) -> None:
        """Joins two hosts' interfaces, which it makes; both are up when `wait_until_up` returns."""
        ip("link", "add", interface, "netns", self.namespace(host), "type", "veth",
           "peer", "name", other_interface, "netns", self.namespace(other_host))
        ip("-n", self.namespace(host), "link", "set", interface, "up")
        ip("-n", self.namespace(other_host), "link", "set", other_interface, "up")

    def limit_rate(
        self, host: str, interface: str, rate: str, burst_bytes: int = BURST_BYTES
    ) -> None:
        """Lets no more than so many bits a second leave the interface.

        Args:
            host: Its host.
            interface: The name of the interface there.
            rate: As `bits_per_s` reads it.
            burst_bytes: What may go at once after a silence. See BURST_BYTES.
        """
        _tool("tc", "-n", self.namespace(host), "qdisc", "add", "dev", interface, "root", "tbf",
              "rate", f"{bits_per_s(rate):.0f}bit", "burst", str(burst_bytes), "latency", "50ms")

    def wait_until_up(self, interfaces: Sequence[tuple[str, str]]) -> None:
        """Returns when each (host, interface) carries packets.

        Raises:
            Unavailable: One still does not after UP_S; it is named.
        """
        end = time.monotonic() + UP_S
        for host, interface in interfaces:
            while "state UP" not in ip("-n", self.namespace(host), "link", "show", interface):
                if time.monotonic() > end:
                    raise Unavailable(f"{self.namespace(host)}: {interface} is not up after "
                                      f"{UP_S:g} s")
                time.sleep(0.005)

    def command(self, host: str, command: Sequence[str]) -> list[str]:
        """The command that runs another one on the host."""
        return ["ip", "netns", "exec", self.namespace(host), *command]

    def start(
        self, host: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Starts a command on the host, which ends when the thread that starts it does.

        Args:
            host: Where.
            command: Program and arguments.
            environment: Variables beside this process's own.
        """
        return subprocess.Popen(
            self.command(host, command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})},
            start_new_session=True, preexec_fn=_end_with_parent,
        )

    def remove(self) -> None:
        """Removes what there is of the network, and ends the processes that run in it.

        They are asked to end, and after END_S ended by force.
        """
        _end_processes(self)
        for namespace in self.existing():
            # Another who removes the same network may have been faster.
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False,
                           timeout=COMMAND_S)


def _end_with_parent() -> None:
    pr_set_pdeathsig = 1
    _libc.prctl(pr_set_pdeathsig, signal.SIGKILL)


def end(process: subprocess.Popen[str]) -> None:
    """Ends what Network.start started, with all that it started itself, by force."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def processes(network: Network) -> list[int]:
    """The ids of what runs in the network, but for this process."""
    found: list[int] = []
    for namespace in network.existing():
        answer = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True,
                                check=False, timeout=COMMAND_S)
        found += [int(word) for word in answer.stdout.split()]
    return [one for one in found if one != os.getpid()]


def _end_processes(network: Network) -> None:
    asked: set[int] = set()
    by_force = time.monotonic() + END_S
    while (left := processes(network)) and time.monotonic() < by_force + END_S:
        for process in left:
            try:
                if time.monotonic() > by_force:
                    os.kill(process, signal.SIGKILL)
                elif process not in asked:
                    os.kill(process, signal.SIGTERM)
            except ProcessLookupError:
                pass
            asked.add(process)
        time.sleep(0.02)


def networks() -> list[Network]:
    """All networks there are, by name."""
    hosts: dict[str, list[str]] = {}
    for path in sorted(FOLDER.glob(f"{PREFIX}*")) if FOLDER.exists() else []:
        name, dash, host = path.name.removeprefix(PREFIX).rpartition("-")
        if dash and re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name):
            hosts.setdefault(name, []).append(host)
    return [Network(name, own) for name, own in hosts.items()]


def remove_leftovers() -> list[str]:
    """Removes the networks whose process has ended, as one that was killed; their names."""
    gone = []
    for network in networks():
        owner = re.search(r"-owned\.(\d+)\.(\d+)\.\d+$", network.name)
        if owner and _start_ticks(int(owner[1])) != owner[2]:
            network.remove()
            gone.append(network.name)
    return gone


def why_not() -> str | None:
    """Why no network can be made here, in one line; None where one can."""
    if not shutil.which("ip") or not shutil.which("tc"):
        return "ip or tc is not installed (Debian: iproute2)"
    try:
        with Network(owned_name("trial"), ["0", "1"]) as trial:
            trial.cable("0", "card", "1", "card")
            trial.limit_rate("0", "card", "100Mbit")
    except Unavailable as error:
        return str(error)
    return None
