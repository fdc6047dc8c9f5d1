"""The data of all pages but the first one, and the orders of people: routes below `/api`.

It is imported when one of them is asked for: what these pages need is much, and the first page does
not wait for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.routing import Route, Router

from .answers import asks
from .asked import body_of
from .clients import client_list
from .collector import Collector
from .groups import group_details, group_list, order_group, topic_lags
from .inside import inside_of, replicas_of, zookeeper_says
from .messages import produce_message, read_content, read_messages
from .nodes import node_command
from .security import (
    acl_list,
    order_acl,
    order_quota,
    order_token,
    order_user,
    quota_list,
    token_list,
    user_list,
)
from .share import share_group_details
from .tables import table_details, table_list
from .tiers import topic_tier
from .topics import order_topic, topic_configs, topic_details
from .transactions import (
    hanging_transactions,
    order_transaction,
    producers_of,
    transaction_details,
    transaction_list,
)

Execute = Callable[[Collector, dict[str, Any]], Awaitable[object]]


def router(collector: Collector) -> Router:
    return Router([*_reading(collector), *_writing(collector)])


def _reading(collector: Collector) -> list[Route]:
    def named(request: Request) -> str:
        return request.query_params.get("name", "")

    return [
        asks("/topic", lambda request: topic_details(collector, named(request))),
        asks("/tier", lambda request: topic_tier(collector, named(request))),
        asks("/tables", lambda _: table_list(collector)),
        asks("/table", lambda request: table_details(collector, named(request))),
        asks("/lags", lambda request: topic_lags(collector, named(request))),
        asks("/configs", lambda request: topic_configs(collector, named(request))),
        asks("/messages", lambda request: read_messages(collector, request.query_params)),
        asks("/content", lambda request: read_content(collector, request.query_params)),
        asks("/groups", lambda _: group_list(collector)),
        asks("/group", lambda request: group_details(collector, named(request))),
        asks("/share", lambda request: share_group_details(collector, named(request))),
        asks("/clients", lambda _: client_list(collector)),
        asks("/transactions", lambda _: transaction_list(collector)),
        asks("/transaction", lambda request: transaction_details(collector, named(request))),
        asks("/producers", lambda request: producers_of(collector, request.query_params)),
        asks("/hanging", lambda request: hanging_transactions(collector, request.query_params)),
        asks("/inside", lambda request: inside_of(collector, request.query_params)),
        asks("/replicas", lambda request: replicas_of(collector, request.query_params)),
        asks("/zookeeper", lambda request: zookeeper_says(collector, request.query_params)),
        asks("/acls", lambda _: acl_list(collector)),
        asks("/users", lambda _: user_list(collector)),
        asks("/quotas", lambda _: quota_list(collector)),
        asks("/tokens", lambda _: token_list(collector)),
    ]


def _writing(collector: Collector) -> list[Route]:
    def orders(path: str, execute: Execute) -> Route:
        async def answer(request: Request) -> object:
            try:
                return await execute(collector, await body_of(request))
            finally:
                collector.shared.forget()

        return asks(path, answer, write=True)

    return [
        orders("/nodes/command", node_command),
        orders("/topics/order", order_topic),
        orders("/messages/produce", produce_message),
        orders("/groups/order", order_group),
        orders("/transactions/order", order_transaction),
        orders("/acls/order", order_acl),
        orders("/users/order", order_user),
        orders("/quotas/order", order_quota),
        orders("/tokens/order", order_token),
    ]
