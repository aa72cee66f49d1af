"""Heartbeats: which agent serves each node, when it last reported, and which agents are silent.

In memory alone: a server that starts waits for the next heartbeat of every agent. The service writes what silence
means for a node's readiness.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

HEARTBEAT_SECONDS = 25
SILENT_AFTER_SECONDS = 3 * HEARTBEAT_SECONDS
_PATIENCE_NS = SILENT_AFTER_SECONDS * 10**9
#: A look that comes so late shows that the server was stopped (SIGSTOP, a suspended machine) and heard no agent.
_LATE_NS = 5 * 10**9


class Hearing:
    """Thread-safe. Instants are the ledger's, in nanoseconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._agents: dict[str, str] = {}  # which agent serves each node
        self._heard: dict[str, int] = {}  # by agent
        self._awaited: dict[str, int] = {}  # since when each agent's next heartbeat is awaited
        self._silent: set[str] = set()
        self._next_look_ns: int | None = None

    def begin(self, agents: Mapping[str, str], now_ns: int) -> None:
        """A server starts: these agents serve these nodes, and all are awaited."""
        with self._lock:
            self._agents = dict(agents)
            self._awaited = dict.fromkeys(agents.values(), now_ns)

    def serves(self, agent: str, node: str) -> None:
        with self._lock:
            self._agents[node] = agent

    def agent_of(self, name: str) -> str:
        """The agent that serves a node; any other name is an agent's own."""
        with self._lock:
            return self._agents.get(name, name)

    def heard(self, agent: str, now_ns: int) -> bool:
        """A word of an agent; whether it was silent before."""
        with self._lock:
            self._heard[agent] = self._awaited[agent] = now_ns
            back = agent in self._silent
            self._silent.discard(agent)
            return back

    def last_ns(self, agent: str) -> int:
        """When it was last heard; 0: not since this server began."""
        with self._lock:
            return self._heard.get(agent, 0)

    def is_silent(self, agent: str) -> bool:
        with self._lock:
            return agent in self._silent

    def silent_nodes(self) -> list[str]:
        """Nodes whose agents missed three heartbeats, by name."""
        with self._lock:
            return sorted(node for node, agent in self._agents.items() if agent in self._silent)

    def fall_silent(self, now_ns: int) -> tuple[list[str], int]:
        """Agents that have just missed three heartbeats, and when the next one can have missed them.

        To be called again at that time. Where that is late by seconds, all agents are awaited anew.
        """
        with self._lock:
            if self._next_look_ns is not None and now_ns - self._next_look_ns >= _LATE_NS:
                self._awaited = dict.fromkeys(self._awaited, now_ns)
            awaited = {agent: at for agent, at in self._awaited.items() if agent not in self._silent}
            overdue = [agent for agent, at in awaited.items() if now_ns - at >= _PATIENCE_NS]
            self._silent.update(overdue)
            due = [at for agent, at in awaited.items() if agent not in self._silent]
            self._next_look_ns = min(due, default=now_ns) + _PATIENCE_NS
            return overdue, self._next_look_ns
