"""How planes, their states and their evidence are shown."""

from __future__ import annotations

from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import Row, TableColumn, format_pairs


def describe_plane(plane: Row) -> str:
    """Return the facts of a plane, without its nodes."""
    facts: list[tuple[str, object]] = [
        ("tenant", plane["tenant"]),
        ("plane", plane["plane"]),
        ("in force", _format_state(plane)),
    ]
    facts += [(name, text) for name, text in _list_numbers(plane)]
    facts.append(("demanded", describe_instant(plane["created_ns"])))
    return format_pairs(facts)


def _format_state(plane: Row) -> str:
    total = len(plane["nodes"])
    count = sum(node["in_force"] for node in plane["nodes"])
    if total == 0:
        return "no: the tenant has no node"
    return f"{'yes' if plane['in_force'] else 'no'}: on {count} of {total} nodes"


def _list_numbers(plane: Row) -> list[tuple[str, str]]:
    found = [(name, str(plane[name])) for name in ("vlan", "vni") if plane[name] is not None]
    if plane["pkey"] is not None:
        found.append(("pkey", f"{plane['pkey']:#06x}"))
    return found


def _format_numbers(plane: Row) -> str:
    return ", ".join(f"{name} {text}" for name, text in _list_numbers(plane)) or "-"


def _find_reason(plane: Row) -> str:
    for node in plane["nodes"]:
        if not node["in_force"]:
            return f"{node['node']}: {node['reason']}"
    return ""


def _describe_seen(row: Row) -> str:
    return describe_instant(row["seen_ns"]) or "never"


PLANE_COLUMNS = (
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("PLANE", lambda row: row["plane"]),
    TableColumn("IN FORCE", _format_state),
    TableColumn("NUMBERS", _format_numbers),
    TableColumn("WHY NOT", _find_reason),
    TableColumn("DEMANDED", lambda row: describe_instant(row["created_ns"]), wide=True),
)
STATE_COLUMNS = (
    TableColumn("NODE", lambda row: row["node"]),
    TableColumn("IN FORCE", lambda row: "yes" if row["in_force"] else "no"),
    TableColumn("SEEN", _describe_seen),
    TableColumn("BY", lambda row: ", ".join(row["evidence"]) or "-"),
    TableColumn("REASON", lambda row: row["reason"]),
)
_SOURCES = {"hash": "applied", "text": "read", "agent": "read by agent", "stale": "too old"}
EVIDENCE_COLUMNS = (
    TableColumn("TARGET", lambda row: row["name"]),
    TableColumn("REPORTED AS", lambda row: _SOURCES.get(row["source"], row["source"])),
    TableColumn("HASH", lambda row: row["hash"][:12]),
    TableColumn("BY", lambda row: row["reporter"]),
    TableColumn("SEEN", lambda row: describe_instant(row["seen_ns"])),
)
