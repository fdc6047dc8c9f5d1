"""A private test net: each server of a cluster in a network namespace of its own.

Job: `Net(places)` makes a namespace for every place (a broker's id, ZOOKEEPER or a member) and a
switch (`tests.support.switch`) between them and this machine, where the clients are (CLIENTS). Then
directions are cut, lossy or slow: packets are lost silently, as behind a pulled cable or a wrong
rule of a firewall, and the kernels retransmit and time out as they do.
It stands where the test kit's `Network` stands: `cut` and `silence` are one here.
Invariants: nothing outside this machine is reached, addresses are those of RFC 2544's test net;
whatever a killed test run has left behind is removed by the next.
Needs: root (CAP_NET_ADMIN), `ip` and /dev/net/tun; `why_not()` says what is missing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.support.switch import MTU_BYTES, Rule

ROOT = Path(__file__).resolve().parent.parent.parent
PREFIX = "pybt"
ZOOKEEPER = 0  # a place: all of its servers, but for members
CLIENTS = 250  # a place: this machine
MEMBERS = {1: 101, 2: 102, 3: 103}  # the places of an ensemble's members, by number
ALL_LOST = 1.0
MAX_NETS = 250
NAMESPACES = Path("/run/netns")

_numbers = itertools.count()


def why_not() -> str:
    """Why there can be no test net here; empty if there can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need iproute2's `ip`"
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        return f"a test net needs /dev/net/tun: {error.strerror}"
    name = f"{PREFIX}-{os.getpid()}-probe"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"no network namespaces here: {done.stderr.strip()}"
    _ip("netns", "del", name)
    return ""


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr.strip()}"


def _remove_old() -> None:
    """Namespaces of test processes that are no more."""
    for path in NAMESPACES.glob(f"{PREFIX}-*") if NAMESPACES.exists() else ():
        owner = int(path.name.split("-")[1])
        if not Path(f"/proc/{owner}").exists():
            with contextlib.suppress(AssertionError):
                _ip("netns", "del", path.name)


class Net:
    def __init__(self, places: Iterable[int], seed: int = 1) -> None:
        _remove_old()
        self._places = [*places]
        self._number, self._claim = _claimed_number()
        mark = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._names = {place: f"{mark}-{place}" for place in self._places}
        self._rules: dict[tuple[int, int], Rule] = {}
        self._switch = subprocess.Popen(
            [sys.executable, "-m", "tests.support.switch"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        taps = {place: f"{PREFIX}{self._number}p{place}" for place in (*self._places, CLIENTS)}
        try:
            self._tell(json.dumps({"taps": taps, "seed": seed}))
            for place, tap in taps.items():
                self._plug(place, tap)
        except BaseException:
            self.close()
            raise

    def _plug(self, place: int, tap: str) -> None:
        inside: tuple[str, ...] = ()
        if place != CLIENTS:
            name = self._names[place]
            _ip("netns", "add", name)
            inside = ("-n", name)
            _ip("link", "set", tap, "netns", name)
            _ip(*inside, "link", "set", "lo", "up")
        mac = f"02:00:00:00:{self._number:02x}:{place:02x}"
        _ip(*inside, "link", "set", tap, "address", mac, "mtu", str(MTU_BYTES))
        _ip(*inside, "address", "add", f"{self.host(place)}/24", "dev", tap)
        _ip(*inside, "link", "set", tap, "up")

    def host(self, place: int) -> str:
        return f"198.18.{self._number}.{place + 1}"

    def namespace(self, place: int) -> str:
        return self._names[place]

    # What `Network` has

    def front(self, place: int, port: int) -> int:
        """The port itself: nothing stands between here but the net."""
        assert place in self._names
        return port

    def belongs(self, place: int, pid: int) -> None:
        """Whose packets they are says their address."""

    def cut(self, a: int, b: int) -> None:
        self.lose(a, b)
        self.lose(b, a)

    silence = cut

    def heal(self) -> None:
        self._rules.clear()
        self._apply()

    def close(self) -> None:
        assert self._switch.stdin is not None
        self._switch.stdin.close()
        self._switch.wait()
        for name in self._names.values():
            if (NAMESPACES / name).exists():
                _ip("netns", "del", name)
        self._claim.close()

    # What it can in addition

    def lose(self, source: int, target: int, share: float = ALL_LOST, delay_ms: float = 0) -> None:
        """From now on this share of the packets from one to the other is lost; the others take
        so long in addition."""
        self._rules[source, target] = Rule(source, target, share, delay_ms)
        self._apply()

    def shape(self, place: int, loss: float, delay_ms: float) -> None:
        """All that a place sends and gets."""
        for other in (*self._places, CLIENTS):
            if other != place:
                for source, target in ((place, other), (other, place)):
                    self._rules[source, target] = Rule(source, target, loss, delay_ms)
        self._apply()

    def isolate(self, place: int, *, but: Iterable[int] = ()) -> None:
        """Cut from all others, but for some."""
        for other in (*self._places, CLIENTS):
            if other != place and other not in but:
                for source, target in ((place, other), (other, place)):
                    self._rules[source, target] = Rule(source, target, ALL_LOST, 0)
        self._apply()

    @property
    def counts(self) -> tuple[int, int]:
        """Frames carried, frames lost."""
        return self._apply()

    def _apply(self) -> tuple[int, int]:
        carried, lost = json.loads(self._tell(json.dumps(list(self._rules.values()))))
        return carried, lost

    def _tell(self, line: str) -> bytes:
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        self._switch.stdin.write(line.encode() + b"\n")
        self._switch.stdin.flush()
        answer = self._switch.stdout.readline()
        assert answer, f"the switch has ended: {self._switch.wait()}"
        return answer


def _claimed_number() -> tuple[int, socket.socket]:
    """A net of 198.18.0.0/16 that no other test process of this machine has."""
    for number in range(1, MAX_NETS):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0pybroker-tests-net-{number}")
        except OSError:
            claim.close()
            continue
        return number, claim
    raise AssertionError(f"{MAX_NETS} test nets are in use")


def net_of(brokers: int, seed: int = 1, zookeepers: Iterable[int] = (ZOOKEEPER,)) -> Net:
    return Net([*zookeepers, *range(1, brokers + 1)], seed)
