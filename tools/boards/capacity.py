"""The board of capacity: what is held, and what the free part is good for."""

from __future__ import annotations

from boards.panels import Board, Panel, Query, Row
from boards.selectors import AGENTS, JOB, MODEL, add_up, join_either, select


def _card(name: str) -> str:
    return select(f"gpupool_card_{name}", "model")


def _model(name: str) -> str:
    return select(f"gpupool_model_{name}", "model")


def _find_free() -> str:
    """Return what is free; agents on Kubernetes say only what is not held."""
    held = add_up("model", _card("held_milli"))
    return join_either(
        f"{add_up('model', _model('free_milli'))} / 1000",
        f"({add_up('model', _card('capacity_milli'))} - {held}) / 1000",
    )


CAPACITY = Board(
    "capacity",
    "Capacity",
    "What the pool has, what is held, and what the free part is good for.",
    (JOB, MODEL),
    (
        Row(
            "Now",
            (
                Panel("stat", "Cards", (Query(f"sum({_card('capacity_milli')}) / 1000"),), width=4),
                Panel(
                    "stat",
                    "Compute held",
                    (Query(f"sum({_card('held_milli')}) / sum({_card('capacity_milli')})"),),
                    "percentunit",
                    4,
                ),
                Panel(
                    "stat",
                    "Memory held",
                    (Query(f"sum({_card('held_bytes')}) / sum({_card('capacity_bytes')})"),),
                    "percentunit",
                    4,
                ),
                Panel(
                    "stat",
                    "Failed cards",
                    (Query(f"sum({_card('failed')})"),),
                    width=4,
                    red_from=1,
                ),
                Panel(
                    "stat",
                    "Silent agents",
                    (
                        Query(
                            join_either(
                                f"sum({select('gpupool_node_silent')})",
                                f'sum(up{{job="{AGENTS}"}} == bool 0)',
                            )
                        ),
                    ),
                    width=4,
                    red_from=1,
                ),
                Panel(
                    "stat",
                    "Nodes ready",
                    (
                        Query(
                            join_either(
                                f"sum({select('gpupool_nodes', ready='true')})",
                                f'sum(up{{job="{AGENTS}"}})',
                            )
                        ),
                    ),
                    width=4,
                ),
            ),
        ),
        Row(
            "Held",
            (
                Panel(
                    "timeseries",
                    "Compute held, by model",
                    (
                        Query(
                            f"{add_up('model', _card('held_milli'))}"
                            f" / {add_up('model', _card('capacity_milli'))}",
                            "{{model}}",
                        ),
                    ),
                    "percentunit",
                ),
                Panel(
                    "timeseries",
                    "Memory held, by model",
                    (
                        Query(
                            f"{add_up('model', _card('held_bytes'))}"
                            f" / {add_up('model', _card('capacity_bytes'))}",
                            "{{model}}",
                        ),
                    ),
                    "percentunit",
                ),
                Panel(
                    "timeseries",
                    "Cards by state and health",
                    (
                        Query(
                            add_up("state, health", select("gpupool_cards", "model")),
                            "{{state}}, {{health}}",
                        ),
                    ),
                    is_stacked=True,
                ),
            ),
        ),
        Row(
            "Free",
            (
                Panel(
                    "timeseries",
                    "Free, in cards",
                    (Query(_find_free(), "{{model}}"),),
                ),
                Panel(
                    "timeseries",
                    "Largest share that one card can take",
                    (Query(f"max by (model) ({_model('largest_milli')}) / 1000", "{{model}}"),),
                ),
                Panel(
                    "timeseries",
                    "Largest memory that one card can give",
                    (Query(f"max by (model) ({_model('largest_bytes')})", "{{model}}"),),
                    "bytes",
                ),
                Panel(
                    "timeseries",
                    "Whole cards",
                    (
                        Query(add_up("model", _model("whole_free")), "{{model}} free"),
                        Query(
                            f"max by (model) ({_model('whole_on_one_node')})",
                            "{{model}} on one node",
                        ),
                    ),
                ),
                Panel(
                    "timeseries",
                    "Of no use to expected jobs, in cards",
                    (Query(f"{add_up('model', _model('fragment_milli'))} / 1000", "{{model}}"),),
                    description="Free capacity that is too small for the jobs that the pool expects.",
                ),
                Panel(
                    "timeseries",
                    "The same by node: the ten largest",
                    (
                        Query(
                            f"topk(10, {select('gpupool_node_fragment_milli')}) / 1000", "{{node}}"
                        ),
                    ),
                ),
                Panel(
                    "timeseries",
                    "Memory of suspended idle jobs",
                    (
                        # Absent where none is suspended: 0, if the pool answers at all.
                        Query(
                            f"sum({select('gpupool_idle_suspended_bytes')})"
                            f"\nor 0 * max({select('gpupool_suspend_factor')})",
                            "suspended",
                        ),
                    ),
                    "bytes",
                ),
            ),
        ),
    ),
)
