"""Tracks heartbeats: the agent of each node, its last report, and agents that are silent."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from gpupool.base.units import NANOS_PER_SECOND

#: Seconds between two heartbeats of an agent, and after how many missed ones it is silent. One lost
#: packet must not stop placement on a node.
HEARTBEAT_SECONDS = 25
SILENT_AFTER_SECONDS = 3 * HEARTBEAT_SECONDS
_PATIENCE_NS = SILENT_AFTER_SECONDS * NANOS_PER_SECOND
#: A look that comes so late shows that the server was stopped (SIGSTOP, a suspended machine) and
#: heard no agent.
_LATE_NS = 5 * NANOS_PER_SECOND


class AgentLiveness:
    """The last heartbeat of every agent. Thread-safe; instants are ledger nanoseconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By node its agent, by agent its last heartbeat, and since when the next one is awaited.
        self._agents: dict[str, str] = {}  # which agent serves each node
        self._heard: dict[str, int] = {}  # by agent
        self._awaited: dict[str, int] = {}  # since when each agent's next heartbeat is awaited
        self._silent: set[str] = set()
        self._next_look_ns: int | None = None

    def start_waiting(self, agents: Mapping[str, str], now_ns: int) -> None:
        """Begin to wait for all agents when a server starts.

        Args:
            agents: The agent of each node, by node.
            now_ns: The ledger's time.
        """
        with self._lock:
            self._agents = dict(agents)
            self._awaited = dict.fromkeys(agents.values(), now_ns)

    def assign_node(self, agent: str, node: str) -> None:
        """Note that the agent serves the node."""
        with self._lock:
            self._agents[node] = agent

    def find_agent(self, name: str) -> str:
        """Return the agent of a node; any other name is that of an agent itself."""
        with self._lock:
            return self._agents.get(name, name)

    def record_heartbeat(self, agent: str, now_ns: int) -> bool:
        """Note a heartbeat.

        Returns:
            Whether the agent was silent before.
        """
        with self._lock:
            self._heard[agent] = self._awaited[agent] = now_ns
            back = agent in self._silent
            self._silent.discard(agent)
            return back

    def get_last_heartbeat_ns(self, agent: str) -> int:
        """Return when the agent was last heard; 0 if not since this server began."""
        with self._lock:
            return self._heard.get(agent, 0)

    def is_silent(self, agent: str) -> bool:
        """Return whether the agent has missed three heartbeats."""
        with self._lock:
            return agent in self._silent

    def list_silent_nodes(self) -> list[str]:
        """List the nodes, by name, whose agents have missed three heartbeats."""
        with self._lock:
            return sorted(node for node, agent in self._agents.items() if agent in self._silent)

    def mark_silent_agents(self, now_ns: int) -> tuple[list[str], int]:
        """Mark the agents that have just missed three heartbeats.

        If the call is late by seconds, the server itself stood still, and all agents are awaited
        anew.

        Returns:
            The agents, and the instant of the next call in nanoseconds.
        """
        with self._lock:
            if self._next_look_ns is not None and now_ns - self._next_look_ns >= _LATE_NS:
                self._awaited = dict.fromkeys(self._awaited, now_ns)
            overdue = []
            earliest_ns = None
            for agent, at in self._awaited.items():
                if agent in self._silent:
                    continue
                if now_ns - at >= _PATIENCE_NS:
                    overdue.append(agent)
                elif earliest_ns is None or at < earliest_ns:
                    earliest_ns = at
            self._silent.update(overdue)
            # With nothing to wait for, an agent that registers now is due after the full time.
            self._next_look_ns = (now_ns if earliest_ns is None else earliest_ns) + _PATIENCE_NS
            return overdue, self._next_look_ns
