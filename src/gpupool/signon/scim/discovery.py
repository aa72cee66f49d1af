"""What the endpoint says of itself: ServiceProviderConfig, ResourceTypes, Schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from gpupool.signon.scim.library import load_scim
from gpupool.signon.scim.listing import MOST_RESULTS


@cache
def build_config() -> Mapping[str, Any]:
    """Build the ServiceProviderConfig: patches and filters, no bulk, no sorting, no ETags."""
    scim = load_scim()
    config = scim.ServiceProviderConfig(
        patch=scim.Patch(supported=True),
        bulk=scim.Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=scim.Filter(supported=True, max_results=MOST_RESULTS),
        change_password=scim.ChangePassword(supported=False),
        sort=scim.Sort(supported=False),
        etag=scim.ETag(supported=False),
        authentication_schemes=[
            scim.AuthenticationScheme(
                type="oauthbearertoken",
                name="Token of a service account",
                description="gpupool token create --user ACCOUNT --scope scim",
                primary=True,
            )
        ],
    )
    config.meta = scim.Meta(resource_type="ServiceProviderConfig")
    return _dump(config)


@cache
def list_resource_types() -> Sequence[Mapping[str, Any]]:
    """List the resource types: User and Group."""
    scim = load_scim()
    return [_dump(scim.ResourceType.from_resource(model)) for model in (scim.User, scim.Group)]


@cache
def list_schemas() -> Sequence[Mapping[str, Any]]:
    """List the schemas of both resources."""
    scim = load_scim()
    return [_dump(model.to_schema()) for model in (scim.User, scim.Group)]


def wrap_list(resources: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Wrap resources as RFC 7644, 4 wants discovery answers."""
    return {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": len(resources),
        "itemsPerPage": len(resources),
        "startIndex": 1,
        "Resources": list(resources),
    }


def _dump(resource: Any) -> Mapping[str, Any]:
    context = load_scim().Context.RESOURCE_QUERY_RESPONSE
    dumped: Mapping[str, Any] = resource.model_dump(scim_ctx=context, mode="json")
    return dumped
