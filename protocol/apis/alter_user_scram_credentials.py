"""AlterUserScramCredentials: set and delete the SCRAM credentials of users (KIP-554).

Tools and admin clients send it to the controller.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Any, Final

from ..access_rules import AccessRules, AnyRequest, on_cluster
from ..acls import AclOperation
from ..api_page import Api, Failure, Handling, elements_together
from ..primitives import Buffer
from ..schema import Message, Struct, array, binary, int8, int16, int32, message, string


class ScramCredentialDeletion(Struct):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: Buffer = binary()
    salted_password: Buffer = binary()


@message(api_key=51, kind="request", valid="0", flexible="0+")
class AlterUserScramCredentialsRequest(Message):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(api_key=51, kind="response", valid="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)


def _each_user_once(_request: AnyRequest, answer: Any, code: int) -> Any:
    by_user = {result.user: result for result in answer.results}
    answer.results = [by_user[user] for user in sorted(by_user)]
    return answer


API: Final = Api(
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
    access=AccessRules((on_cluster(AclOperation.ALTER),), only_controller=True),
    elements=(
        elements_together("deletions", "results", name="user"),
        elements_together("upsertions", "results", name="user"),
    ),
    failure=Failure(finish=_each_user_once),
    since="2.7",
    handling=Handling.WAITS,
)
