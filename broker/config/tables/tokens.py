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
        doc="The secret that makes delegation tokens, the same on all brokers; without it there "
        "are none.",
    ),
    key(
        "delegation.token.max.lifetime.ms",
        LONG,
        "604800000",
        MEDIUM,
        valid=AT_LEAST_1,
        doc="How long a delegation token can be prolonged at most.",
    ),
    key(
        "delegation.token.expiry.time.ms",
        LONG,
        "86400000",
        MEDIUM,
        valid=AT_LEAST_1,
        doc="How long a delegation token holds without being renewed.",
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
        doc="With it this broker encrypts the passwords that are altered while it runs: they are "
        "kept in ZooKeeper. Without it none can be altered.",
    ),
    key(
        "password.encoder.old.secret",
        PASSWORD,
        None,
        MEDIUM,
        doc="The secret of before, after a change of password.encoder.secret: at the next start, "
        "passwords in ZooKeeper are read with it and encrypted with the new one.",
    ),
    key(
        "password.encoder.keyfactory.algorithm",
        STRING,
        None,
        LOW,
        doc="How a key is made of the secret: PBKDF2WithHmacSHA512 if it is not set, or one of its "
        "kind with another SHA.",
    ),
    key(
        "password.encoder.cipher.algorithm",
        STRING,
        "AES/CBC/PKCS5Padding",
        LOW,
        doc="What encrypts: AES/CBC/PKCS5Padding or AES/GCM/NoPadding.",
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
        doc="How many rounds it takes to make that key of the secret.",
    ),
)
