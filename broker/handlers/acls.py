"""DescribeAcls, CreateAcls and DeleteAcls v0-3 (KIP-140; prefixed patterns are KIP-290, v1).

Any broker makes the change itself; when it answers, the change is in ZooKeeper and holds here. The
table of rules authorizes a request before it comes here. Each resource is changed separately, so a
request may succeed in part, as its results show.

A binding with UNKNOWN (0) in it closes the connection, one with ANY or MATCH fails its request,
both as in Kafka; so does a malformed principal, for all bindings of its resource in the request.

Mirrors kafka.server.AclApis, and createAcls, deleteAcls and acls of
kafka.security.authorizer.AclAuthorizer.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ...protocol.acls import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.create_acls import AclCreation, AclCreationResult, CreateAclsResponse
from ...protocol.apis.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from ...protocol.apis.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ...protocol.discarding import discard_all
from ...protocol.errors import ErrorCode
from ..security.acls import AccessControlEntry, AclBinding, AclFilter, ResourcePattern
from ..security.principal import parse_principal
from ..zk.acl_store import AclStore, Change, Entries, UpdateFailed

if TYPE_CHECKING:
    from ..network.request import Handler, Request

logger = logging.getLogger("pybroker.broker.handlers.acls")

ENTRIES_A_STEP = 100

T = TypeVar("T")
C = TypeVar("C", bound=IntEnum)
Steps: TypeAlias = Generator[None, None, T]
Failure: TypeAlias = tuple[ErrorCode, str | None]
Filters: TypeAlias = list[tuple[int, AclFilter]]

NO_FAILURE: Failure = (ErrorCode.NONE, None)
UNKNOWN_FAILURE: Failure = (ErrorCode.UNKNOWN_SERVER_ERROR, None)
DISABLED: Failure = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


class AclHandlers:
    """`store` is None without an authorizer."""

    __slots__ = ("_store",)

    def __init__(self, store: AclStore | None) -> None:
        self._store = store

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.DESCRIBE_ACLS: self.describe_acls,
            ApiKey.CREATE_ACLS: self.create_acls,
            ApiKey.DELETE_ACLS: self.delete_acls,
        }

    # Describe

    async def describe_acls(self, request: Request) -> None:
        if _has_unknown(request.body):
            request.close()
        elif self._store is None:
            text = "No Authorizer is configured on the broker"
            request.fail(ErrorCode.SECURITY_DISABLED, text)
        else:
            resources = await request.in_turns(_describe(self._store, _filter(request.body)))
            request.respond(DescribeAclsResponse(resources=resources))

    # Create

    async def create_acls(self, request: Request) -> None:
        creations = request.body.creations
        bindings = await request.in_turns(_bindings(creations))
        if bindings is None:
            request.close()
            return
        failures: dict[int, Failure] = {}
        groups: dict[ResourcePattern, list[int]] = {}
        if self._store is None:
            failures = dict.fromkeys(range(len(bindings)), DISABLED)
        elif await request.in_turns(_all(map(_is_specific, bindings))):
            groups = await request.in_turns(_by_resource(bindings, failures))
        else:
            failures = dict.fromkeys(range(len(bindings)), UNKNOWN_FAILURE)
        for resource, indexes in groups.items():
            failure = await self._add(request, resource, _added(bindings, indexes))
            if failure is not None:
                failures.update(dict.fromkeys(indexes, failure))
        results = await request.in_turns(_creation_results(len(bindings), failures))
        await request.in_turns(discard_all(groups))
        request.respond(CreateAclsResponse(results=results))

    async def _add(
        self, request: Request, resource: ResourcePattern, steps: Steps[Entries]
    ) -> Failure | None:
        assert self._store is not None
        try:
            added = await request.in_turns(steps)
            await self._store.update(resource, _adding(added), request.in_turns)
        except (ValueError, UpdateFailed) as error:
            logger.warning("ACLs were not created: %s", error)
            return UNKNOWN_FAILURE
        return None

    # Delete

    async def delete_acls(self, request: Request) -> None:
        asked: Sequence[DeleteAclsFilter] = request.body.filters
        if not await request.in_turns(_all(not _has_unknown(one) for one in asked)):
            request.close()
            return
        store = self._store
        if store is None:
            results = await request.in_turns(_deletion_results(len(asked), {}, DISABLED))
            request.respond(DeleteAclsResponse(filter_results=results))
            return
        filters = await request.in_turns(_filters(asked))
        found = await request.in_turns(_matching(store.authorizer.patterns(), filters))
        matches: dict[int, list[DeleteAclsMatchingAcl]] = {}
        for resource, matching in found.items():
            deleted: dict[AccessControlEntry, int] = {}
            failure = NO_FAILURE
            try:
                await store.update(resource, _deleting(matching, deleted), request.in_turns)
            except UpdateFailed as error:
                logger.warning("ACLs were not deleted: %s", error)
                failure = UNKNOWN_FAILURE
            await request.in_turns(_add_matches(matches, resource, deleted, failure))
        results = await request.in_turns(_deletion_results(len(filters), matches, NO_FAILURE))
        await request.in_turns(discard_all(found))
        request.respond(DeleteAclsResponse(filter_results=results))


# Reading requests


def _code(kind: type[C], number: int) -> C:
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def _has_unknown(asked: DescribeAclsRequest | DeleteAclsFilter) -> bool:
    return 0 in (
        asked.resource_type_filter,
        asked.pattern_type_filter,
        asked.operation,
        asked.permission_type,
    )


def _filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        _code(ResourceType, asked.resource_type_filter),
        _code(PatternType, asked.pattern_type_filter),
        asked.resource_name_filter,
        asked.principal_filter,
        asked.host_filter,
        _code(AclOperation, asked.operation),
        _code(AclPermission, asked.permission_type),
    )


def _filters(asked: Iterable[DeleteAclsFilter]) -> Steps[Filters]:
    """With their places in the request."""
    filters = []
    for index, one in enumerate(asked):
        filters.append((index, _filter(one)))
        yield
    return filters


def _bindings(creations: Iterable[AclCreation]) -> Steps[list[AclBinding] | None]:
    """None if there is a zero in one of them."""
    bindings = []
    for one in creations:
        codes = (
            one.resource_type, one.resource_pattern_type, one.operation, one.permission_type,
        )  # fmt: skip
        if 0 in codes:
            return None
        pattern = ResourcePattern(
            _code(ResourceType, one.resource_type),
            _code(PatternType, one.resource_pattern_type),
            one.resource_name,
        )
        entry = AccessControlEntry(
            one.principal,
            one.host,
            _code(AclOperation, one.operation),
            _code(AclPermission, one.permission_type),
        )
        bindings.append(AclBinding(pattern, entry))
        yield
    return bindings


def _is_specific(binding: AclBinding) -> bool:
    pattern, entry = binding
    return (
        pattern.type is not ResourceType.ANY
        and pattern.pattern not in (PatternType.ANY, PatternType.MATCH)
        and entry.operation is not AclOperation.ANY
        and entry.permission is not AclPermission.ANY
    )


def _invalid(binding: AclBinding) -> str | None:
    """The error of an invalid binding, in Kafka's words; None if it is valid."""
    pattern, entry = binding
    if pattern.type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not pattern.name:
        return "Invalid empty resource name"
    unknown = (
        pattern.type is ResourceType.UNKNOWN
        or pattern.pattern is PatternType.UNKNOWN
        or entry.operation is AclOperation.UNKNOWN
        or entry.permission is AclPermission.UNKNOWN
    )
    return "Failed to create ACL" if unknown or "/" in pattern.name else None


def _added(bindings: Sequence[AclBinding], indexes: Iterable[int]) -> Steps[Entries]:
    """The entries to add to one resource; ValueError if a principal is malformed."""
    added = set()
    for index in indexes:
        entry = bindings[index].entry
        parse_principal(entry.principal)
        added.add(entry)
        yield
    return frozenset(added)


def _by_resource(
    bindings: Iterable[AclBinding], failures: dict[int, Failure]
) -> Steps[dict[ResourcePattern, list[int]]]:
    """The indexes of the valid ones; the others fail."""
    groups: dict[ResourcePattern, list[int]] = {}
    for index, binding in enumerate(bindings):
        wrong = _invalid(binding)
        if wrong is None:
            groups.setdefault(binding.pattern, []).append(index)
        else:
            failures[index] = (ErrorCode.INVALID_REQUEST, wrong)
        yield
    return groups


def _all(answers: Iterable[bool]) -> Steps[bool]:
    for answer in answers:
        if not answer:
            return False
        yield
    return True


# Changes


def _adding(added: Entries) -> Change:
    def change(now: Entries) -> Steps[Entries]:
        yield
        return now | added

    return change


def _deleting(filters: Filters, deleted: dict[AccessControlEntry, int]) -> Change:
    """Notes in `deleted` which filter was the first to match an entry."""

    def change(now: Entries) -> Steps[Entries]:
        matching = set()
        for entry in now:
            for index, one in filters:
                yield
                if one.matches_entry(entry):
                    matching.add(entry)
                    deleted.setdefault(entry, index)
                    break
        return now - matching

    return change


def _matching(
    patterns: Iterable[ResourcePattern], filters: Filters
) -> Steps[dict[ResourcePattern, Filters]]:
    """The resources that filters may match, each with those filters, in their order."""
    found: dict[ResourcePattern, Filters] = {}
    scanning = []
    for index, one in filters:
        yield
        named = one.named_patterns()
        if named is None:
            scanning.append((index, one))
            continue
        for resource in named:
            found.setdefault(resource, []).append((index, one))
    for resource in patterns if scanning else ():
        for index, one in scanning:
            yield
            if one.matches_pattern(resource):
                found.setdefault(resource, []).append((index, one))
    for matching in found.values():
        matching.sort(key=lambda one: one[0])
        yield
    return found


# Answers


def _describe(store: AclStore, asked: AclFilter) -> Steps[list[DescribeAclsResource]]:
    resources = []
    patterns = asked.named_patterns() or store.authorizer.patterns()
    for resource in patterns:
        yield
        if not asked.matches_pattern(resource):
            continue
        described = []
        for number, entry in enumerate(store.authorizer.entries(resource)):
            if number % ENTRIES_A_STEP == 0:
                yield
            if asked.matches_entry(entry):
                described.append(AclDescription(**_fields(entry)))
        if described:
            resources.append(
                DescribeAclsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    pattern_type=resource.pattern,
                    acls=described,
                )
            )
    return resources


def _fields(entry: AccessControlEntry) -> dict[str, Any]:
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission,
    }


def _creation_results(
    count: int, failures: Mapping[int, Failure]
) -> Steps[list[AclCreationResult]]:
    results = []
    for index in range(count):
        result = AclCreationResult()
        if index in failures:
            code, text = failures[index]
            result = AclCreationResult(error_code=code, error_message=text)
        results.append(result)
        yield
    return results


def _add_matches(
    matches: dict[int, list[DeleteAclsMatchingAcl]],
    resource: ResourcePattern,
    deleted: Mapping[AccessControlEntry, int],
    failure: Failure,
) -> Steps[None]:
    code, text = failure
    for entry, index in deleted.items():
        matches.setdefault(index, []).append(
            DeleteAclsMatchingAcl(
                error_code=code,
                error_message=text,
                resource_type=resource.type,
                resource_name=resource.name,
                pattern_type=resource.pattern,
                **_fields(entry),
            )
        )
        yield


def _deletion_results(
    count: int, matches: Mapping[int, list[DeleteAclsMatchingAcl]], failure: Failure
) -> Steps[list[DeleteAclsFilterResult]]:
    code, text = failure
    results = []
    for index in range(count):
        acls = matches.get(index, [])
        results.append(
            DeleteAclsFilterResult(error_code=code, error_message=text, matching_acls=acls)
        )
        yield
    return results
