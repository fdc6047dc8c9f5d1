"""The settings of a warehouse's object store in the words of each library: pyiceberg, deltalake,
and Iceberg in Java. The names here are those of `storage.table_places`; of S3 alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..storage.table_places import ALLOW_HTTP

VIRTUAL: Final = "virtual_hosted_style_request"
_KEYS: Final = {
    "access_key_id": "s3.access-key-id",
    "endpoint": "s3.endpoint",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
}
_PYICEBERG: Final = {**_KEYS, "region": "s3.region", VIRTUAL: "s3.force-virtual-addressing"}
_JAVA: Final = {**_KEYS, "region": "client.region"}
S3_FILES: Final = "org.apache.iceberg.aws.s3.S3FileIO"


def for_pyiceberg(store: Mapping[str, str]) -> dict[str, str]:
    return {_PYICEBERG[name]: text for name, text in store.items() if name in _PYICEBERG}


def for_deltalake(store: Mapping[str, str]) -> dict[str, str]:
    return {("allow_http" if name == ALLOW_HTTP else name): text for name, text in store.items()}


def for_java(store: Mapping[str, str]) -> dict[str, str]:
    """Of Iceberg's catalogue in Spark."""
    named = {_JAVA[name]: text for name, text in store.items() if name in _JAVA}
    by_path = "endpoint" in store and store.get(VIRTUAL, "").lower() != "true"
    return {"io-impl": S3_FILES, **named, **({"s3.path-style-access": "true"} if by_path else {})}
