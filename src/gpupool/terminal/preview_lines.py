"""What `--preview` prints: where a submission would go, why it would wait, or why it is refused."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from gpupool.terminal.context import CommandContext

#: Cards that are printed; `-o json` has more.
_CARDS = 8
#: Millionths of a currency's unit in one of it.
_MICRO = 1_000_000


def print_preview(
    context: CommandContext,
    asked: Mapping[str, Any],
    output: str | None = None,
    *,
    may_be_gang: bool = False,
) -> int:
    """Ask for the preview of a submission and print it. Submits nothing.

    Args:
        context: The pool.
        asked: The body of the submission.
        output: `json`, or None for people.
        may_be_gang: Whether the submission would ask for a gang in place of more cards than a node
            has.

    Returns:
        0 where it would be accepted, else the exit code of its refusal.
    """
    from gpupool.terminal.output import print_data

    answer = context.api.request("POST", "jobs/preview", dict(asked))
    if may_be_gang and answer.get("gang"):
        from gpupool.base.errors import TooManyCards
        from gpupool.client.gangs.even_gang import describe_gang_request, make_gang_request
        from gpupool.terminal.context import print_notice

        gang = make_gang_request(asked, TooManyCards(answer["reason"], gang=answer["gang"]))
        if gang is not None:
            print_notice(describe_gang_request(asked, gang))
            answer = context.api.request("POST", "jobs/preview", gang)
    if output == "json":
        print_data(answer, "json")
    else:
        sys.stdout.write("\n".join(list_lines(answer)) + "\n")
    if answer["outcome"] != "never":
        return 0
    from gpupool.base.errors import from_code

    return from_code(answer["code"], answer["reason"]).exit_code


def list_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """List the lines of a preview, the outcome first."""
    from gpupool.terminal.mechanism_lines import format_plan
    from gpupool.terminal.output import clean_text

    many = f"{answer['count']} × [{answer['share']}]" if answer["count"] > 1 else answer["share"]
    code = f" ({answer['code']})" if answer["code"] else ""
    yield f"{answer['outcome']}: {many}{code}"
    if answer["outcome"] == "fits":
        yield f"on {_format_cards(answer)}: {clean_text(answer['reason'])}"
        if answer["starts_now"] < answer["count"]:
            yield f"{answer['starts_now']} of {answer['count']} jobs would start at once"
    else:
        yield from map(clean_text, str(answer["reason"]).splitlines())
    if answer["start"]:
        yield f"starts {answer['start']}"
    if answer["ahead"]:
        yield f"behind {answer['ahead']} other{'s' if answer['ahead'] > 1 else ''} in the queue"
    if answer["nearest"]:
        yield f"would fit now: {answer['nearest']}"
    for hint in answer["hints"]:
        yield f"- {clean_text(hint)}"
    if answer["outcome"] != "never":
        yield from format_plan(answer)
    if answer["cost"] is not None:
        yield format_cost(answer["cost"])


def _format_cards(answer: Mapping[str, Any]) -> str:
    names = [seat["device"] for seat in answer["on"][:_CARDS]]
    more = answer["on_total"] - len(names)
    if not names:
        return "its node"
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def format_cost(cost: Mapping[str, Any]) -> str:
    """Format what a submission costs, by the hour and to its limit."""
    unit = f" {cost['currency']}" if cost["currency"] else ""
    line = f"cost: {cost['per_hour_micro'] / _MICRO:.2f}{unit} an hour"
    if cost["total_micro"] is None:
        return line
    return f"{line}, {cost['total_micro'] / _MICRO:.2f}{unit} until its time limit"
