"""Passwords in Kafka's form: what Apache Kafka 3.9.1 has written is read, and a round trip."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.broker.security.password_encoder import (
    SALT_BYTES,
    VECTOR_BYTES,
    CannotDecode,
    EncoderSettings,
    decode,
    encode,
    problem_of,
)

SECRET = "encoder-secret"
PASSWORD = "pässword \U0001f600,x:y"
# Of EncryptingPasswordEncoder: SHA-512 and CBC, SHA-1 and a longer key, SHA-256 and GCM. It has
# read what `encode` writes, too.
OF_KAFKA = [
    (
        "initializationVector:u47wlBrnGCgq4dfXugdw3w==,keyLength:128,salt:Y5Nm4Qdb16/XXHTkWcM"
        "YWtm1fAMdY6Q1QZYONc+Bjsr5+Et/t09lYyNiEHLzaCPLyJ1zkHod7YiIGx8v+ie9mRJ/fIfUq49toj4LzYL"
        "Txq0fh0qpXsezPiilMKJQ1zHW495zJ5Ysu7cs15B5JTxr9rYQXa8RLVBXtNWe4+oRbgiSAUFkOt1BGR3VUoL"
        "AnNiwj1Y+vsbJVndKLWFmzYK5FQvftR1oR90t7RUGPMw9ECHN8xJ2tyv3D0LJ9bzGfIlXg73y0n18SGV/bFU"
        "RU15xInn4cETlgTpr4O33CQ8e1dZhb5p2XhC+DpznM1cWP1ETwAEuwCKc0a+8rHBwn/8HCg==,keyFactory"
        "Algorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,"
        "passwordLength:15,encryptedPassword:Uqe9Nd19ZDXnS5DwOz6D+JdySbYCryX1DUIytmAYeeM="
    ),
    (
        "initializationVector:upLMXLOrE92TjTWnBFJjJw==,keyLength:256,salt:AhDK5dmu8SWwtNohTU9"
        "a5Z59g4voOliKVL438L/BJO1o9KpfkXrgJi+YsTmJoIh7NlE80aM3TJpeDLP5YRRGHNPReeFHwKC3KNnzVPj"
        "4o2mwK6gy09aaRP+hPhAL+4NaYMZ/zZDV6vGiYLxI44FRhWVThrowBp23KFRc8uDRm0O6limq0XnYF4D49WE"
        "H9nLupgNiepixnlXwFHbCxV2j/WZA8+CmA9tWFhdPn/TDdKpH6uVeGhfPuHkNB+LukOvT8BMCUaw5NDss5UK"
        "sehjv7w+lLFca42PonryYqJ52OdsXXfJoiNjUUZyx+VjToeHOymA0sgqZOxn7FYpRF+8TSg==,keyFactory"
        "Algorithm:PBKDF2WithHmacSHA1,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:1024,pa"
        "sswordLength:15,encryptedPassword:BDAZG7D5fUuG5fxOSKCRMKxsSrK0LoKnW4qMX/jCGFo="
    ),
    (
        "initializationVector:Fvt6eU4BlzX7HHca,keyLength:128,salt:2VBECggP65AONxkLLSUye5EPD2A"
        "Oyh/k+MoKNJzKRmMy9+mlN4VXPEJ+Vc18rgdGbVcHWq40bNfN/uDLPyOlm6efiY7IX53eSDLIl/firr2J8tP"
        "EvV3NpvCXFhk8otPomVvmXszpWxSarUG6sUky9jo4PhZISSgZK2XmdXNpz+7Lhx9/XKjp7hg5tzbXL7u7o6d"
        "IoAcjV8QFsyzMpacvq5nfppfsbq5oKQl3umKV1o1B7ci0O+YC+8zFWkUUArvKwlIzcgGP7gO9F10OXYJK8Io"
        "2lAQsX7xIaGW1tXu1TuzWAKZ/+god9U6It6rgMbg6eErLmH1RsjIpaSD/qinyww==,keyFactoryAlgorith"
        "m:PBKDF2WithHmacSHA256,cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength:128"
        ",iterations:2048,passwordLength:15,encryptedPassword:2FOiT1sektgrG0hbofxepfVhS+JC3J7"
        "6fUYwtio2cFYBYw=="
    ),
]
SALT, VECTOR = bytes(range(SALT_BYTES)), bytes(range(VECTOR_BYTES))


@pytest.mark.parametrize("encoded", OF_KAFKA)
def test_what_kafka_has_written(encoded: str) -> None:
    assert decode(SECRET, encoded) == PASSWORD
    with pytest.raises(CannotDecode) as raised:
        decode("another", encoded)
    assert SECRET not in str(raised.value)


@settings(max_examples=60, deadline=None)
@given(
    password=st.text(max_size=200),
    cipher=st.sampled_from(["AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"]),
    bits=st.sampled_from([128, 192, 256]),
    factory=st.sampled_from(["PBKDF2WithHmacSHA512", "PBKDF2WithHmacSHA1"]),
)
def test_what_is_written_is_read(password: str, cipher: str, bits: int, factory: str) -> None:
    chosen = EncoderSettings(SECRET, factory, cipher, bits, 1024)
    assert problem_of(chosen) is None
    encoded = encode(chosen, password, SALT, VECTOR)
    assert decode(SECRET, encoded) == password


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_text_is_only_ever_refused(data: st.DataObject) -> None:
    text = encode(EncoderSettings(SECRET, iterations=1024), "secret", SALT, VECTOR)
    at = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(at, min(len(text), at + 40)))
    changed = text[:at] + data.draw(st.text(max_size=5)) + text[end:]
    with contextlib.suppress(CannotDecode):
        decode(SECRET, changed)


@pytest.mark.parametrize(
    ("chosen", "key"),
    [
        (EncoderSettings(SECRET, key_factory="PBEWithMD5AndDES"), "keyfactory.algorithm"),
        (EncoderSettings(SECRET, cipher="DES/CBC/PKCS5Padding"), "cipher.algorithm"),
        (EncoderSettings(SECRET, key_length=56), "key.length"),
        (EncoderSettings(SECRET, iterations=10**9), "iterations"),
    ],
)
def test_what_cannot_be(chosen: EncoderSettings, key: str) -> None:
    problem = problem_of(chosen)
    assert problem is not None
    assert problem[0] == key
    assert SECRET not in repr(chosen)


def test_nobody_makes_us_count_for_long() -> None:
    text = encode(EncoderSettings(SECRET, iterations=1024), "x", SALT, VECTOR)
    with pytest.raises(CannotDecode):
        decode(SECRET, text.replace("iterations:1024", "iterations:2147483647"))
