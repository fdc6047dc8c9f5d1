"""What the clients of the bank and those who check them agree on."""

from __future__ import annotations

from typing import NamedTuple

LEDGER = "ledger"
ORDERS = "orders"
RECEIPTS = "receipts"
GROUP = "clerks"
PARTITIONS = 3
ACCOUNTS = 100
BALANCE = 1_000
# Short: what a client that was killed leaves open keeps readers waiting.
TRANSACTION_TIMEOUT_MS = 6_000


class Leg(NamedTuple):
    """One side of a transfer: what an account gets or gives."""

    transfer: str
    number: int
    of: int
    account: int
    amount: int


def leg_value(transfer: str, number: int, of: int, account: int, amount: int) -> bytes:
    return f"{transfer} {number} {of} {account} {amount}".encode()


def parse_leg(value: bytes) -> Leg:
    transfer, *numbers = value.decode().split()
    number, of, account, amount = map(int, numbers)
    return Leg(transfer, number, of, account, amount)
