"""A gang in place of more cards than a node has: the members that a refusal offers.

A single claim has its cards on one node. The pool refuses a count that no node has, and its refusal
names the gang that has as many cards. The client decides whether it asks for that gang (ADR 0120).
"""

from __future__ import annotations

from gpupool.base.errors import TooManyCards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gpupool.client.transport import Api

#: Name of the only role, as `model.gang.MEMBER`, without its import.
_MEMBER = "member"


def make_gang_request(body: Mapping[str, Any], error: TooManyCards) -> dict[str, Any] | None:
    """Make the request for the gang that a refusal offers.

    Args:
        body: The body of POST /jobs that was refused.
        error: The refusal.

    Returns:
        The body that asks for the gang; None where none is offered, or where the request says
        something that a gang cannot have.
    """
    offer = error.details.get("gang")
    shape = body["shape"]
    # A level is about the cards of one member there, and about the members of a gang.
    if not offer or body.get("gang") or body.get("array") or shape.get("within"):
        return None
    launch = dict(body["launch"])
    if launch.get("container"):
        launch["container"] = {**launch["container"], "terminal": False}
    role = {"name": _MEMBER, "count": offer["members"]}
    return {
        **body,
        "attached": False,
        "shape": {**shape, "count": offer["count"]},
        "launch": launch,
        "gang": {"name": "gang", "parts": [role]},
    }


def choose_gang(
    body: Mapping[str, Any], error: TooManyCards, *, may_be_gang: bool
) -> dict[str, Any]:
    """Make the request for the gang that a refusal offers, or raise the refusal."""
    gang = make_gang_request(body, error) if may_be_gang else None
    if gang is None:
        raise error
    return gang


def request_plan(
    api: Api, body: Mapping[str, Any], *, may_be_gang: bool
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Ask which mechanism jobs would get. Submits nothing.

    Args:
        api: The pool.
        body: The body of POST /jobs.
        may_be_gang: Whether a gang is asked for in place of more cards than a node has.

    Returns:
        The plan, and the body of the gang where that is what was asked for.
    """
    try:
        return api.request("POST", "jobs/plan", dict(body)), None
    except TooManyCards as error:
        gang = choose_gang(body, error, may_be_gang=may_be_gang)
    return api.request("POST", "jobs/plan", gang), gang


def describe_gang_request(body: Mapping[str, Any], gang: Mapping[str, Any]) -> str:
    """Describe what is asked for in place of what, in one line."""
    members = gang["gang"]["parts"][0]["count"]
    each = gang["shape"]["count"]
    if each == 1:
        return (
            f"{body['shape']['count']} cards are more than a node has: requested as a gang of "
            f"{members} members of 1 card each; the command runs once in each"
        )
    return (
        f"{body['shape']['count']} cards are more than a node has: requested as a gang of "
        f"{members} members of {each} cards each; the command runs once in each"
    )
