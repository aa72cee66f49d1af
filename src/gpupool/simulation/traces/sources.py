"""Resolve what a user types where a trace is expected: `sample`, `synthetic:...` or a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpupool.base.errors import BadTrace
from gpupool.model.claim import Shape
from gpupool.simulation.traces import eventlog, sample, synthetic, trace
from gpupool.simulation.traces.columns import read_header
from gpupool.simulation.traces.nodes import read_nodes, read_text
from gpupool.simulation.traces.openb import read_pods
from gpupool.simulation.traces.synthetic import TraceParameters
from gpupool.simulation.traces.trace import TraceNode, WorkloadTrace


@dataclass(frozen=True)
class TraceSource:
    """A trace, or the parameters of a trace to generate.

    `own` describes the nodes that it runs on where the user names none; empty without a default.
    """

    trace: WorkloadTrace | None = None
    synthetic: TraceParameters | None = None
    shapes: tuple[Shape, ...] = ()
    own: str = ""

    def choose_nodes(self, given: str | None) -> tuple[TraceNode, ...]:
        """Return the nodes that the user names, else the source's own.

        Raises:
            BadTrace, BadMachine, UnknownModel: for no nodes, or a bad description of them.
        """
        if given or self.own:
            return read_nodes(given or self.own)
        if self.trace is not None and self.trace.nodes:
            return self.trace.nodes
        raise BadTrace(
            "this trace has no nodes of its own",
            hint="give them: --nodes nodes.csv, or --nodes 16x8xH200",
        )


def read_trace(given: str) -> TraceSource:
    """Read `sample`, `synthetic[:name=value,...]`, or a file.

    Raises:
        BadTrace: for what cannot be read.
    """
    kind, _, rest = given.partition(":")
    if given == "sample":
        return TraceSource(trace=sample.read_sample(), own=sample.NODES)
    if kind == "synthetic":
        return _parse_synthetic(rest)
    return TraceSource(trace=_read_file(given))


def _parse_synthetic(text: str) -> TraceSource:
    """Parse `shapes=FILE,name=value,...`; the last `shapes=` counts."""
    shapes: tuple[Shape, ...] = ()
    parts: list[str] = []
    for part in text.split(","):
        if part.startswith("shapes="):
            shapes = _read_shapes(part.removeprefix("shapes="))
        else:
            parts.append(part)
    parameters = synthetic.parse_parameters(",".join(parts))
    # The default pool has as many cards as the load is computed for: whole nodes, then one with
    # the rest.
    whole, odd = divmod(parameters.cards, parameters.cards_per_node)
    sizes: list[str] = []
    if whole:
        sizes.append(f"{whole}x{parameters.cards_per_node}xH200")
    if odd:
        sizes.append(f"{odd}xH200")
    return TraceSource(synthetic=parameters, shapes=shapes, own=",".join(sizes))


def _read_shapes(path: str) -> tuple[Shape, ...]:
    """Read what the pods of an openb list ask for, one shape for each pod.

    Pods without a card are left out: they ask for no card-time, and the generator draws jobs until
    the load in card-time is reached.
    """
    pods = read_pods(Path(path))
    shapes: list[Shape] = []
    for number in pods.shape_numbers.tolist():
        if pods.shapes[number].count:
            shapes.append(pods.shapes[number])
    return tuple(shapes)


def _read_file(path: str) -> WorkloadTrace:
    text = read_text(path)
    if eventlog.is_event_log(text):
        return eventlog.read_events(path, text)
    # An openb list is refused here although it has times: they are no load to replay, and the
    # paper's protocol ignores them too.
    if "num_gpu" in read_header(text):
        raise BadTrace(
            f"{path} is an openb list, whose times are no load to replay",
            hint=f"--protocol fgd, or with made-up times: synthetic:shapes={path},cards=6212,days=1",
        )
    return trace.read_csv(path, text)
