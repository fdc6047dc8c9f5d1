"""Delegation tokens and the encoder of stored passwords."""

from __future__ import annotations

from ..keys import (
    AT_LEAST_1,
    INT,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    Range,
    key,
)

DEFINITIONS = (
    key(
        "delegation.token.master.key",
        PASSWORD,
        None,
        MEDIUM,
        doc="The old name of delegation.token.secret.key.",
    ),
    key(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        MEDIUM,
        doc="The secret from which delegation tokens are made, the same on all brokers; without it "
        "there are no tokens.",
    ),
    key(
        "delegation.token.max.lifetime.ms",
        LONG,
        "604800000",
        MEDIUM,
        valid=AT_LEAST_1,
        doc="The longest lifetime of a delegation token, renewals included.",
    ),
    key(
        "delegation.token.expiry.time.ms",
        LONG,
        "86400000",
        MEDIUM,
        valid=AT_LEAST_1,
        doc="How long a delegation token is valid without a renewal.",
    ),
    key(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        "3600000",
        LOW,
        valid=AT_LEAST_1,
        doc="How often the controller deletes expired delegation tokens.",
    ),
    key(
        "password.encoder.secret",
        PASSWORD,
        None,
        MEDIUM,
        doc="The secret that encrypts passwords altered while the broker runs, which are stored in "
        "ZooKeeper. Without it no password can be altered.",
    ),
    key(
        "password.encoder.old.secret",
        PASSWORD,
        None,
        MEDIUM,
        doc="The previous secret, after a change of password.encoder.secret: the next start "
        "decrypts the passwords in ZooKeeper with it, and encrypts them with the new one.",
    ),
    key(
        "password.encoder.keyfactory.algorithm",
        STRING,
        None,
        LOW,
        doc="The function that makes a key from the secret: PBKDF2WithHmacSHA512 if it is not set, "
        "or the same with another SHA.",
    ),
    key(
        "password.encoder.cipher.algorithm",
        STRING,
        "AES/CBC/PKCS5Padding",
        LOW,
        doc="The cipher: AES/CBC/PKCS5Padding or AES/GCM/NoPadding.",
    ),
    key(
        "password.encoder.key.length",
        INT,
        "128",
        LOW,
        valid=Range(8),
        doc="The length of that key: 128, 192 or 256 bits.",
    ),
    key(
        "password.encoder.iterations",
        INT,
        "4096",
        LOW,
        valid=Range(1024),
        doc="The number of rounds in which the key is made from the secret.",
    ),
)
