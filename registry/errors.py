"""The registry's errors: an HTTP status, Confluent's error code and its message.

The messages are Confluent's where clients read them: they match `not found`, `Invalid schema`.
Mirrors: Errors and the classes Rest...Exception.
"""

from __future__ import annotations

from typing import Final

NOT_FOUND: Final = 404
CONFLICT: Final = 409
UNPROCESSABLE: Final = 422
SERVER_ERROR: Final = 500


class Rejected(Exception):
    """A request that the registry does not serve; `code` is in the body of the answer."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class BadSchema(Exception):
    """A schema that its format does not allow; the message says why."""


def subject_not_found(subject: str | None) -> Rejected:
    return Rejected(NOT_FOUND, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> Rejected:
    return Rejected(NOT_FOUND, 40402, f"Version {version} not found.")


def schema_not_found(number: int | str | None = None) -> Rejected:
    which = "" if number is None else f" {number}"
    return Rejected(NOT_FOUND, 40403, f"Schema{which} not found")


def subject_soft_deleted(subject: str) -> Rejected:
    text = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    return Rejected(NOT_FOUND, 40404, text)


def subject_not_soft_deleted(subject: str) -> Rejected:
    text = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return Rejected(NOT_FOUND, 40405, text)


def version_soft_deleted(subject: str, version: int) -> Rejected:
    text = f"Subject '{subject}' Version {version} was soft deleted."
    return Rejected(NOT_FOUND, 40406, f"{text}Set permanent=true to delete permanently")


def version_not_soft_deleted(subject: str, version: int) -> Rejected:
    text = f"Subject '{subject}' Version {version} was not deleted first before being permanently"
    return Rejected(NOT_FOUND, 40407, f"{text} deleted")


def compatibility_not_configured(subject: str) -> Rejected:
    text = f"Subject '{subject}' does not have subject-level compatibility configured"
    return Rejected(NOT_FOUND, 40408, text)


def mode_not_configured(subject: str) -> Rejected:
    text = f"Subject '{subject}' does not have subject-level mode configured"
    return Rejected(NOT_FOUND, 40409, text)


def incompatible(subject: str, reasons: list[str]) -> Rejected:
    details = f"[{', '.join(reasons)}]"
    text = "Schema being registered is incompatible with an earlier schema for subject"
    return Rejected(CONFLICT, 409, f'{text} "{subject}", details: {details}')


def invalid_schema(reason: str) -> Rejected:
    return Rejected(UNPROCESSABLE, 42201, reason)


def invalid_version(version: str) -> Rejected:
    text = f"The specified version '{version}' is not a valid version id. Allowed values are"
    return Rejected(UNPROCESSABLE, 42202, f'{text} between [1, 2^31-1] and the string "latest"')


def invalid_compatibility() -> Rejected:
    text = "Invalid compatibility level. Valid values are none, backward, forward, full,"
    text = f"{text} backward_transitive, forward_transitive, and full_transitive"
    return Rejected(UNPROCESSABLE, 42203, text)


def invalid_mode() -> Rejected:
    text = "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT."
    return Rejected(UNPROCESSABLE, 42204, text)


def not_permitted(reason: str) -> Rejected:
    return Rejected(UNPROCESSABLE, 42205, reason)


def reference_exists(subject: str, version: int) -> Rejected:
    place = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    text = f"One or more references exist to the schema {place}."
    return Rejected(UNPROCESSABLE, 42206, text)


def invalid_subject(subject: str) -> Rejected:
    text = f"The specified subject '{subject}' is not a valid."
    return Rejected(UNPROCESSABLE, 42208, text)


def schema_too_large() -> Rejected:
    text = "Register operation failed because schema is too large"
    return Rejected(UNPROCESSABLE, 42209, text)


def store_failed(reason: str) -> Rejected:
    return Rejected(SERVER_ERROR, 50001, reason)


def timed_out(reason: str) -> Rejected:
    return Rejected(SERVER_ERROR, 50002, reason)


def forwarding_failed(reason: str) -> Rejected:
    return Rejected(SERVER_ERROR, 50003, reason)


def unknown_leader(reason: str) -> Rejected:
    return Rejected(SERVER_ERROR, 50004, reason)
