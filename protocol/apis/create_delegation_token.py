"""CreateDelegationToken: a token that logs in as its owner (KIP-48).

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


class CreatableRenewers(Struct):
    principal_type: str = string()
    principal_name: str = string()


@message(api_key=38, kind="request", valid="0-3", flexible="2+")
class CreateDelegationTokenRequest(Message):
    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


@message(api_key=38, kind="response", valid="0-3", flexible="2+")
class CreateDelegationTokenResponse(Message):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: Buffer = binary()
    throttle_time_ms: int = int32()


API: Final = Api(
    request=CreateDelegationTokenRequest,
    response=CreateDelegationTokenResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.CREATE_TOKENS, ResourceType.USER, "owner"),),
                "for somebody else: DELEGATION_TOKEN_AUTHORIZATION_FAILED",
            ),
        )
    ),
    since="1.1",
    handling=Handling.WAITS,
)
