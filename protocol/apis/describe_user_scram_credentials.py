"""DescribeUserScramCredentials: which SCRAM mechanisms users have (KIP-554).

Tools and admin clients send it to any broker. An answer that failed leaves the names out, as
Kafka's does.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import AT_EACH_TOO, Api, Handling, elements_together
from ..schema import Message, Struct, array, int8, int16, int32, message, string


class UserName(Struct):
    name: str = string()


@message(api_key=50, kind="request", valid="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Message):
    users: list[UserName] | None = array(UserName, nullable="0+")


class CredentialInfo(Struct):
    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


@message(api_key=50, kind="response", valid="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)


API: Final = Api(
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
    access=AccessRules((on_cluster(AclOperation.DESCRIBE),)),
    elements=(elements_together("users", "results"),),
    failure=AT_EACH_TOO,
    since="2.7",
    handling=Handling.WAITS,
)
