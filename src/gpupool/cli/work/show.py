"""`gpupool show`: everything about one job, card, node, or the pool."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from gpupool.base.errors import NotFound, NotOneJob
from gpupool.base.units import format_duration
from gpupool.cli.suspension.facts import describe_changes
from gpupool.cli.work.gpus import (
    describe_fits,
    describe_health,
    describe_largest,
    describe_measurement,
)
from gpupool.cli.work.ps import describe_duration, describe_ending, describe_state
from gpupool.model.partition import read_foreign_pieces
from gpupool.terminal.chain_lines import (
    describe_after,
    describe_attempt,
    describe_requeue,
    list_attempts,
)
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import (
    describe_age,
    describe_compute,
    describe_instant,
    describe_memory,
)
from gpupool.terminal.output import count_noun, flatten_facts, format_pairs, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output
from gpupool.terminal.references import quote_segment


def register(parser: CommandParser) -> None:
    parser.about = "A name is looked for among jobs and arrays, then cards, then nodes. Without a name: the pool."
    parser.examples = [
        "gpupool show train",
        "gpupool show last",
        "gpupool show node-1:0",
        "gpupool show -o json",
    ]
    parser.add_argument(
        "what",
        nargs="?",
        metavar="NAME",
        help="a job or array (name, id, last), a card (node:index), a node",
    )
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    kind, found = find_thing(context, options.what)
    if options.output != "table":
        print_data(found, options.output)
    else:
        sys.stdout.write(format_pairs(_FACTS[kind](found)) + "\n")
    return 0


def find_thing(context: CommandContext, name: str | None) -> tuple[str, dict[str, Any]]:
    """Return what the name means and the thing itself. Raises NotFound."""
    if name is None:
        return "pool", context.api.request("GET", "pool")
    # No job or node has a colon in its name.
    kinds = ("device",) if ":" in name else ("job", "device", "node")
    for kind in kinds:
        try:
            return kind, context.api.request(
                "GET", f"{kind}s/{quote_segment(name, 'job, card or node')}"
            )
        except NotFound:
            continue
        except NotOneJob:
            return "array", context.api.request("GET", f"arrays/{quote_segment(name, 'array')}")
    raise NotFound(
        f"no job, card or node {name!r}",
        hint="gpupool ps --all  and  gpupool gpus  list what there is",
    )


def job_facts(job: dict[str, Any]) -> list[tuple[str, object]]:
    """List what `show JOB` prints."""
    cards = ", ".join(f"{seat['device']} ({seat['model']})" for seat in job["seats"])
    if job["count"] == 0 and job["node"]:
        cards = f"none; it is on {job['node']}"
    return [
        ("job", f"{job['name']}  {job['id']}"),
        ("state", describe_state(job) + (f": {job['reason']}" if job["reason"] else "")),
        *describe_changes(job),
        ("share", job["share"] + ("   SIMULATED" if job["simulated"] else "")),
        ("sharing", job["sharing"]),
        ("cards", cards),
        ("placed there", job["why"]),
        ("fence", describe_fence(job)),
        ("enforced", describe_levels(job.get("holds")) if job["count"] else None),
        ("owner", f"{job['user']} of {job['tenant']}, project {job['project']}"),
        ("priority", job["priority"]),
        ("model asked", job["model"] or "any"),
        ("max time", format_duration(job["max_seconds"]) if job["max_seconds"] else "no limit"),
        (
            "array",
            job["array"] and not job["gang"] and f"{job['array']}, number {job['array_index']}",
        ),
        *((name, value) for name, value in _asked_besides(job) if value),
        ("submitted", describe_instant(job["submitted_ns"])),
        ("placed", describe_instant(job["placed_ns"])),
        ("started", describe_instant(job["started_ns"])),
        ("ended", describe_instant(job["ended_ns"])),
        ("time", describe_duration(job)),
        ("exit", describe_ending(job)),
        *_use_facts(job["use"]),
        (
            "cpu time",
            None if job["cpu_milliseconds"] is None else f"{job['cpu_milliseconds'] / 1000:.2f} s",
        ),
        ("largest memory", describe_memory(job["max_rss_bytes"])),
        ("command", _describe_command(job)),
    ]


def describe_fence(job: dict[str, Any]) -> str:
    """Describe what enforces a job's share; unknown until its node has said that it runs or ran."""
    is_unknown = job["fence"] == "none" and not job.get("fence_why")
    if job["count"] == 0 or (is_unknown and job["state"] in ("pending", "starting")):
        return "--"
    return str(job["fence"]) + (f": {job['fence_why']}" if job.get("fence_why") else "")


def describe_levels(holds: Mapping[str, str] | None) -> str | None:
    """Describe the enforcement level of each dimension; None where its node has not said."""
    if not holds:
        return None
    return ", ".join(f"{dimension} {level}" for dimension, level in holds.items())


def _describe_command(one: dict[str, Any]) -> str:
    return f"not shown: it is {one['user']}'s" if one.get("private") else shlex.join(one["command"])


def array_facts(array: dict[str, Any]) -> list[tuple[str, object]]:
    states = ", ".join(f"{count} {state}" for state, count in array["states"].items())
    following = f"{array['name']}.{array['next'].rpartition('.')[2]}" if array["next"] else None
    again = "yes" if array["preemptible"] else "only when it is lost" if array["requeue"] else None
    return [
        ("array", f"{array['name']}  {array['id']}"),
        ("jobs", f"{array['size']}, {array['first']} to {array['last']}"),
        ("states", states),
        *([("next", following)] if following else []),
        *([("it waits" if following else "reason", array["reason"])] if array["reason"] else []),
        ("share of each", array["share"]),
        ("owner", f"{array['user']} of {array['tenant']}, project {array['project']}"),
        ("priority", array["priority"]),
        ("model asked", array["model"] or "any"),
        ("max time", format_duration(array["max_seconds"]) if array["max_seconds"] else "no limit"),
        *([("reservation", array["reservation"])] if array["reservation"] else []),
        *([("after", describe_after(array))] if array.get("after") else []),
        *([("may be preempted", again)] if again else []),
        ("submitted", describe_instant(array["submitted_ns"])),
        *([("stopped", describe_instant(array["stopped_ns"]))] if array["stopped_ns"] else []),
        ("command", _describe_command(array)),
    ]


def _asked_besides(job: dict[str, Any]) -> list[tuple[str, str | None]]:
    """List what few jobs ask for; None where this one does not."""
    member = f"{job['array']} ({job['gang']}), member {job['gang_rank']}, role {job['gang_role']}"
    joined = (job["network"], job["address"] or "no address now", job["address6"])
    return [
        ("network", job["network"] and ", ".join(filter(None, joined))),
        ("floating IP", job["floating_ip"]),
        ("gang", member if job["gang"] else None),
        ("of its node", _describe_node_part(job)),
        ("near together", _describe_near(job["within"])),
        ("reservation", job["reservation"]),
        ("after", describe_after(job)),
        ("may be preempted", describe_requeue(job)),
        ("attempt", describe_attempt(job)),
        *list_attempts(job),
        ("work saved", describe_instant(job["saved_ns"]) if job["saved_ns"] else None),
    ]


def _describe_node_part(job: dict[str, Any]) -> str | None:
    """Format the processors and main memory that a job holds beside its cards."""
    cpus = f"{job['cpu_milli'] / 1000:g} processors" if job["cpu_milli"] else ""
    memory = describe_memory(job["host_bytes"]) if job["host_bytes"] else ""
    amounts = " + ".join(part for part in (cpus, memory) if part)
    return f"{amounts}{_describe_numa(job['numa'])}" if amounts else None


def _describe_numa(parts: list[dict[str, Any]]) -> str:
    """Format `, of NUMA node 0`; with the amounts where they come from several."""
    if len(parts) == 1:
        return f", of NUMA node {parts[0]['numa']}"
    amounts = []
    for part in parts:
        amount = _describe_node_part({**part, "numa": []})
        amounts.append(f"{amount} of NUMA node {part['numa']}")
    return f": {', '.join(amounts)}" if amounts else ""


def _describe_near(within: dict[str, Any] | None) -> str | None:
    words = [] if within is None else [f"{how}: {level}" for how, level in within.items() if level]
    return ", ".join(words) or None


def _use_facts(use: dict[str, Any] | None) -> list[tuple[str, object]]:
    """List what a job uses now, by its latest sample; nothing for a job that does not run."""
    if use is None:
        return []
    share = "--" if use["share_percent"] is None else f"{use['share_percent']:.0f} % of its share"
    beyond = use["unaccounted_bytes"]
    facts: list[tuple[str, object]] = [
        ("use", f"{share}; memory {describe_memory(use['memory_bytes']) or '--'}")
    ]
    if use["reserved_bytes"] is not None:
        waited = _format_seconds(use["wait_milliseconds"])
        throttled = _format_seconds(use["throttled_milliseconds"])
        facts += [
            ("gpu time", f"{_format_seconds(use['gpu_milliseconds'])}, {use['launches']} launches"),
            ("held back", f"{waited}, {throttled} of it because the share was used up"),
            ("refusals", f"{use['refusals']} allocations, for the limit"),
            (
                "unaccounted",
                None
                if beyond is None
                else f"{describe_memory(beyond)} on its cards beyond the fence's ledger",
            ),
        ]
    return facts + [_process_fact(process) for process in use["processes"]]


def _process_fact(process: dict[str, Any]) -> tuple[str, object]:
    cards = process["cards"]
    used = sum(card["used_bytes"] for card in cards)
    spent = sum(card["gpu_nanoseconds"] for card in cards)
    foreign = "   had another driver mapped before the fence's" if process["foreign_driver"] else ""
    return (
        f"process {process['pid']}",
        f"{describe_memory(used)}, {_format_seconds(spent // 10**6)} of GPU time{foreign}",
    )


def _format_seconds(milliseconds: int | None) -> str:
    return "--" if milliseconds is None else f"{milliseconds / 1000:.2f} s"


def _describe_mode(card: dict[str, Any]) -> str:
    switch = card["switch"]
    if switch is None:
        return str(card["mode"])
    reason = switch["reason"] or f"{count_noun(card['shares'], 'share')} still on it"
    return f"{card['mode']}, {switch['state']} for {switch['wanted']}: {reason}"


def device_facts(card: dict[str, Any]) -> list[tuple[str, object]]:
    """List what `show CARD` prints."""
    used = f"{describe_compute(card['used_milli'])} + {describe_memory(card['used_bytes'])}"
    return [
        ("card", card["name"] + ("   SIMULATED" if card["simulated"] else "")),
        ("model", f"{card['model']} ({card['product']})"),
        ("uuid", card["uuid"]),
        ("memory", describe_memory(card["memory_bytes"])),
        ("state", card["state"]),
        ("mode", _describe_mode(card)),
        ("health", describe_health(card)),
        ("held", f"{used} in {count_noun(card['shares'], 'share')}"),
        ("free", f"{describe_compute(card['free_milli'])} + {describe_memory(card['free_bytes'])}"),
        ("largest placeable", describe_largest(card)),
        *([("serves MPS of", card["mps_owner"])] if card.get("mps_owner") else []),
        *(
            []
            if card["mix"] is None
            else [("cut into", card["mix"] or "nothing yet"), ("still fits", describe_fits(card))]
        ),
        *(("foreign", piece.describe()) for piece in read_foreign_pieces(card["facts"])),
        ("busy", describe_measurement(card, "utilization_percent", "{:.0f} %")),
        ("memory used", describe_memory(card["usage"]["memory_used_bytes"])),
        ("power", describe_measurement(card, "power_watts", "{:.0f} W")),
        ("temperature", describe_measurement(card, "temperature_celsius", "{:.0f} °C")),
        *(
            (f"process {other['pid']}", f"{other['name']}, not started by the pool")
            for other in card["unmanaged"]
        ),
    ]


def node_facts(node: dict[str, Any]) -> list[tuple[str, object]]:
    return [
        ("node", node["name"] + ("   SIMULATED" if node["simulated"] else "")),
        ("ready", "yes" if node["ready"] else "no"),
        ("cards", node["devices"]),
        ("last heard of", f"{describe_age(node['last_seen_ns'])} ago"),
        *host_facts(node),
        *((f"label {key}", value) for key, value in sorted(node["labels"].items())),
        *flatten_facts({key: value for key, value in node["facts"].items() if key != "numa"}),
    ]


def host_facts(node: dict[str, Any]) -> list[tuple[str, object]]:
    """List what is free of a node's processors and main memory, the whole and by NUMA node."""
    if node["cpu_milli"] is None:
        return []
    whole = {"cpu_milli": node["cpu_milli"], "memory_bytes": node["host_bytes"]}
    free = {"free_cpu_milli": node["free_cpu_milli"], "free_bytes": node["free_host_bytes"]}
    facts: list[tuple[str, object]] = [("free beside cards", describe_free(whole | free))]
    for one in node["numa"]:
        where = f"{describe_free(one)}; processors {one['cpus']}"
        facts.append((f"NUMA node {one['number']}", where))
    return facts


def describe_free(one: dict[str, Any]) -> str:
    """Format `12 of 16 processors, 30720 MiB of 32768 MiB`."""
    cpus = f"{one['free_cpu_milli'] / 1000:g} of {one['cpu_milli'] / 1000:g} processors"
    return f"{cpus}, {describe_memory(one['free_bytes'])} of {describe_memory(one['memory_bytes'])}"


def pool_facts(pool: dict[str, Any]) -> list[tuple[str, object]]:
    # None: the pool has cards of both kinds, or no card.
    simulated = {
        True: "   SIMULATED",
        False: "",
        None: "   partly SIMULATED" if pool["devices"] else "",
    }
    return [
        ("pool", pool["id"] + simulated[pool["simulated"]]),
        ("version", pool["version"]),
        ("server", f"pid {pool['pid']}, up {describe_age(pool['started_ns'])}"),
        ("cards", f"{pool['devices']} on {count_noun(pool['nodes'], 'node')}"),
        ("jobs", f"{pool['jobs_live']} live, {pool['jobs_pending']} of them waiting"),
        ("state", pool["state_dir"]),
        ("store", pool["store"]),
        ("listens at", ", ".join(pool["listeners"])),
    ]


_FACTS = {
    "job": job_facts,
    "array": array_facts,
    "device": device_facts,
    "node": node_facts,
    "pool": pool_facts,
}
