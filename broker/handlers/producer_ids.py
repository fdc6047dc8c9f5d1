"""InitProducerId v0-5 for producers without a transactional id (idempotent ones).

Any broker gives a new producer id with epoch 0. The producer id and epoch that a request of v3+
carries must come together (or be both -1); without a transactional id they are not used.

Rules: semantics 8.2. Mirrors KafkaApis.handleInitProducerIdRequest. Leaves out transactions: a
transactional id is answered with COORDINATOR_NOT_AVAILABLE, and FindCoordinator finds none for it.
"""

from collections.abc import Mapping

from broker.dispatch import Handler, Request
from broker.producer_ids import ProducerIds
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse

NONE = -1


class ProducerIdHandlers:
    __slots__ = ("_producer_ids",)

    def __init__(self, producer_ids: ProducerIds) -> None:
        self._producer_ids = producer_ids

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.INIT_PRODUCER_ID: self.init_producer_id}

    async def init_producer_id(self, request: Request) -> None:
        body: InitProducerIdRequest = request.body
        try:
            _check(body)
            producer_id = await self._producer_ids.next_id()
        except KafkaError as error:
            response = InitProducerIdResponse(
                error_code=error.code, producer_id=NONE, producer_epoch=NONE
            )
        else:
            response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        request.respond(response)


def _check(body: InitProducerIdRequest) -> None:
    both_unset = body.producer_id == NONE and body.producer_epoch == NONE
    if not both_unset and (body.producer_id < 0 or body.producer_epoch < 0):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if body.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if body.transactional_id is not None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
