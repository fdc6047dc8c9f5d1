"""DescribeDelegationToken: the tokens of owners (KIP-48).

Tools and admin clients send it to any broker.
Versions: 2 is flexible; 3 has an owner beside the requester (KIP-373).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling
from ..primitives import Buffer
from ..schema import Message, Struct, array, binary, int16, int32, int64, message, string


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string()
    principal_name: str = string()


@message(api_key=41, kind="request", valid="0-3", flexible="2+")
class DescribeDelegationTokenRequest(Message):
    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, nullable="0+"
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: Buffer = binary()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


@message(api_key=41, kind="response", valid="0-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()


API: Final = Api(
    request=DescribeDelegationTokenRequest,
    response=DescribeDelegationTokenResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (
                    Question(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "token_id"),
                    Question(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "owner"),
                ),
                "of others' tokens: left out",
            ),
        )
    ),
    since="1.1",
    handling=Handling.IN_TURNS,
)
