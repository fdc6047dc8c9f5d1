"""TLS handshakes that were valid once, with something changed: as many as are wanted.

Job: `Mutant` plays a handshake of TLS 1.2 or 1.3 to a listener of TLS, with or without SASL or
clients' certificates, and changes bytes, records and their order in one flight or in all; then it
asks for what only who belongs here is told. `attack` plays many beside a good client.
Invariants: a seed gives the same changes (keys and nonces are OpenSSL's own); a certificate that is
shown is of a stranger's authority, so that nothing may open where one is required, nor where a
login is.

By hand: python -m tests.abuse.tls_mutations --count 200000 --seed 1
It prints a line for each window of handshakes, at the end how many there were, and what the broker
has kept of them; it ends with 1 if something is not as it should be.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import socket
import ssl
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from tests.abuse.beside import TABLE, Row, format_table
from tests.abuse.mutations import is_good
from tests.abuse.sasl_mutations import changed, framed, sized
from tests.abuse.secured import Secured, secured_bystander
from tests.abuse.storms import resident_mb, settled_mb
from tests.support.certificates import Authority, pem

WINDOW = 2_000  # handshakes between two looks at the good client
PATIENCE_SECONDS = 0.02
CONNECT_SECONDS = 120.0
MAX_FLIGHTS = 6
HEAD_BYTES = 5  # of a record: type, version, length
LISTENERS = ("TLS", "MUTUAL", "SECURE")
CLOSED_LISTENERS = ("MUTUAL", "SECURE")
SLACK_MB = 60
SLACK_DESCRIPTORS = 8
ODD_RECORDS = (
    b"\x14\x03\x03\x00\x01\x01",  # a change of ciphers
    b"\x14\x03\x03\x00\x00",
    b"\x15\x03\x03\x00\x02\x01\x00",  # the end of the stream
    b"\x15\x03\x03\x00\x02\x01\x5a",  # a warning
    b"\x15\x03\x03\x00\x02\x02\x28",  # the handshake has failed
    b"\x16\x03\x03\x00\x00",
    b"\x16\x03\x03\x00\x04\x00\x00\x00\x00",  # HelloRequest
    b"\x16\x03\x03\x00\x04\x05\x00\x00\x00",  # EndOfEarlyData
    b"\x16\x03\x03\x00\x05\x18\x00\x00\x01\x01",  # new keys
    b"\x16\x03\x03\x00\x04\x0e\xff\xff\xff",
    b"\x17\x03\x03\x00\x10" + bytes(16),  # data
    b"\x18\x03\x03\x00\x03\x01\x40\x00",  # a heartbeat that asks for more than it brings
)

# Lets nobody wait for connections that both sides have left.
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Contexts:
    """Clients of several kinds; none of them has a certificate that the broker trusts."""

    def __init__(self, secured: Secured, directory: Path) -> None:
        stranger = Authority().client("alice").write_pem(directory / "stranger.pem")
        self._all = []
        for lowest, highest in (
            (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
            (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
            (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3),
        ):
            for shows_certificate in (False, True):
                context = ssl.create_default_context(cadata=pem(secured.authority.certificate))
                context.minimum_version, context.maximum_version = lowest, highest
                if shows_certificate:
                    context.load_cert_chain(stranger)
                self._all.append(context)

    def any(self, rng: random.Random) -> ssl.SSLContext:
        return rng.choice(self._all)


def records_of(data: bytes) -> list[bytes]:
    found = []
    while len(data) >= HEAD_BYTES:
        size = HEAD_BYTES + int.from_bytes(data[3:5], "big")
        found.append(data[:size])
        data = data[size:]
    return [*found, data] if data else found


def mutated_flight(data: bytes, rng: random.Random) -> bytes:
    """Bytes, records or what stands in a record, changed once or a few times."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        kind = rng.randrange(9)
        records = records_of(data)
        if kind < 3 or not records:
            data = changed(data, rng)
            continue
        at = rng.randrange(len(records))
        record = records[at]
        head, body = record[:HEAD_BYTES], record[HEAD_BYTES:]
        if kind == 3:
            records.insert(at, rng.choice(ODD_RECORDS))
        elif kind == 4:
            records[at:at] = [record] * rng.choice((1, 1, 2, 40))
        elif kind == 5:
            del records[at]
        elif kind == 6:
            records.insert(0, records.pop(at))
        elif kind == 7:  # with the right length again, so that its contents are looked at
            body = changed(body, rng)[: (1 << 16) - 1]
            records[at] = head[:3] + len(body).to_bytes(2, "big") + body
        else:  # in smaller records
            size = rng.choice((1, 7, 100))
            pieces = [body[first : first + size] for first in range(0, len(body), size)]
            records[at : at + 1] = [head[:3] + len(p).to_bytes(2, "big") + p for p in pieces]
        data = b"".join(records)
    return data


class Mutant:
    """One connection."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._socket = socket.create_connection(address, CONNECT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        self._socket.settimeout(PATIENCE_SECONDS)

    def close(self) -> None:
        self._socket.close()

    def play(self, rng: random.Random) -> str:
        """How it ended: `open`, if the broker has answered a request, `shaken`, `closed`, or
        `left`, if we were those who did not wait."""
        changes = rng.randrange(3)  # the flight; the last is that behind the handshake
        always = rng.random() < 0.1
        shaken = False
        for number in range(MAX_FLIGHTS):
            if not shaken:
                try:
                    self._tls.do_handshake()
                    shaken = True
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLError:
                    return "closed"
            if shaken:
                with contextlib.suppress(ssl.SSLError):
                    self._tls.write(sized(framed(MetadataRequest(topics=[]), 1)))
            flight = self._outgoing.read()
            if flight and (always or number == changes):
                flight = mutated_flight(flight, rng)
            ends = number >= changes and rng.random() < 0.5
            try:
                self._socket.sendall(flight)
                if ends:
                    self._socket.shutdown(socket.SHUT_WR)
                answer = self._socket.recv(1 << 16)
            except TimeoutError:
                return "left"
            except OSError:
                return "closed"
            if not answer:
                return "closed"
            self._incoming.write(answer)
            if shaken and self._is_answered():
                return "open"
        return "shaken" if shaken else "left"

    def _is_answered(self) -> bool:
        """Metadata has come; tickets for another session are no answer."""
        try:
            return bool(self._tls.read(1))
        except ssl.SSLError:
            return False


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def attack(
    secured: Secured, directory: Path, count: int, seed: int, window: int = WINDOW
) -> Iterator[tuple[Row, Counter[str]]]:
    """Play `count` handshakes; of each window what the good client saw and how they ended."""
    contexts = Contexts(secured, directory)
    good = secured.good
    for first in range(0, count, window):
        size = min(window, count - first)
        ends: Counter[str] = Counter()

        def play(first: int = first, size: int = size, ends: Counter[str] = ends) -> None:
            rng = random.Random(f"{seed}-{first}")
            for _ in range(size):
                listener = rng.choice(LISTENERS)
                mutant = Mutant(("127.0.0.1", secured.port(listener)), contexts.any(rng))
                try:
                    end = mutant.play(rng)
                finally:
                    mutant.close()
                ends[end] += 1
                assert end != "open" or listener not in CLOSED_LISTENERS, (
                    f"seed {seed}, from {first}: a stranger was let in at {listener}"
                )

        row = good.measure(f"mutated handshakes from {first} (seed {seed})", play, is_good)
        assert good.broker.is_running, f"seed {seed}, from {first}: {good.broker.log_text[-3000:]}"
        assert good.complaints() == [], f"seed {seed}, from {first}: {good.complaints()[:5]}"
        yield row, ends


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    arguments = parser.parse_args()
    bad = 0
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name, secured_bystander(Path(name)) as secured:
        for _, some in attack(secured, Path(name), WINDOW, arguments.seed + 1):
            ends += some  # what a broker needs once
        before, descriptors = resident_mb(secured.pid), descriptors_of(secured.pid)
        for row, some in attack(secured, Path(name), arguments.count, arguments.seed):
            ends += some
            bad += not is_good(row)
            print(format_table([row]).splitlines()[-1], dict(some),
                  "" if is_good(row) else "  TOO LONG", flush=True)  # fmt: skip
        after = settled_mb(secured.pid, before + SLACK_MB)
        kept = descriptors_of(secured.pid) - descriptors
    leaks = after > before + SLACK_MB or kept > SLACK_DESCRIPTORS
    print(
        f"{sum(ends.values())} handshakes ({dict(ends)}), {len(TABLE)} windows, {bad} that held up "
        f"the good client; none opened anything; {before:.0f} MB before, {after:.0f} MB after, "
        f"{kept} descriptors more"
    )
    return 1 if bad or leaks else 0


if __name__ == "__main__":
    sys.exit(main())
