"""Graphs of the simulated driver: captured, built by hand, changed, with memory of their own,
launched as one whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.native.simgpu_cuda import make_machine, run

HELPERS = """
class Kernel(Structure):
    _fields_ = [("f", c_void_p), ("gx", c_uint), ("gy", c_uint), ("gz", c_uint), ("bx", c_uint), ("by", c_uint),
                ("bz", c_uint), ("shared", c_uint), ("params", c_void_p), ("extra", c_void_p), ("kern", c_void_p),
                ("ctx", c_void_p)]
class Fill(Structure):
    _fields_ = [("to", c_uint64), ("pitch", c_size_t), ("value", c_uint), ("element", c_uint), ("w", c_size_t),
                ("h", c_size_t)]
class Host(Structure):
    _fields_ = [("f", c_void_p), ("data", c_void_p)]
def kernel(ns):
    argument = c_uint64(ns)
    places = (c_void_p * 1)(addressof(argument))
    made = Kernel(spin, 1, 1, 1, 1, 1, 1, 0, addressof(places))
    made.kept = argument, places
    return made
def nodes(*given):
    return (c_void_p * max(1, len(given)))(*given)
def add(kind, graph, after, *params):
    return cu.get(c_void_p, f"GraphAdd{kind}Node" + ("_v2" if kind == "Kernel" else ""), graph, nodes(*after),
                  len(after), *params)
def instantiate(graph, flags=0):
    return cu.get(c_void_p, "GraphInstantiateWithFlags", graph, flags)
def took(executable, stream):
    a, b = cu.event(), cu.event()
    cu.launch(spin, stream, ns=200 * MS)  # meanwhile all is in the stream, however busy the machine is
    cu("EventRecord", a, stream)
    cu("GraphLaunch", executable, stream)
    cu("EventRecord", b, stream)
    assert cu.code("EventElapsedTime", byref(c_float()), a, b) == NOT_READY
    cu("StreamSynchronize", stream)
    return cu.elapsed_ms(a, b)
def count(graph):
    n = c_size_t()
    cu("GraphGetNodes", graph, None, byref(n))
    return n.value
cu.start()
spin = cu.function(b"gpupool_spin_ns")
stream = cu.stream()
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return make_machine(tmp_path)


def graphs(machine: Path, text: str) -> None:
    run(
        machine,
        f"exec({HELPERS!r}, globals())\n" + "\n".join(line[8:] for line in text.splitlines()),
    )


def test_a_captured_fork_and_join_takes_as_long_as_its_longest_branch(machine: Path) -> None:
    graphs(
        machine,
        """
        other, forked, joined, p = cu.stream(), cu.event(), cu.event(), cu.alloc(64)
        cu("StreamBeginCapture_v2", stream, 0)
        cu.launch(spin, stream, ns=5 * MS)
        cu("EventRecord", forked, stream)
        cu("StreamWaitEvent", other, forked, 0)
        cu.launch(spin, other, ns=20 * MS)
        cu.launch(spin, stream, ns=1 * MS)
        cu("MemsetD8Async", p, 3, 64, stream)
        cu("EventRecord", joined, other)
        cu("StreamWaitEvent", stream, joined, 0)
        cu.launch(spin, stream, ns=5 * MS)
        out = c_void_p()
        cu("StreamEndCapture", stream, byref(out))
        graph = out.value
        assert count(graph) == 5
        roots = c_size_t()
        cu("GraphGetRootNodes", graph, None, byref(roots))
        edges = c_size_t()
        cu("GraphGetEdges", graph, None, None, byref(edges))
        assert (roots.value, edges.value) == (1, 5)
        assert cu.read(p, 1) == bytes(1)
        executable = instantiate(graph)
        cu("GraphDestroy", graph)
        assert abs(took(executable, stream) - 30) < 0.5
        assert cu.read(p, 64) == bytes([3] * 64)
        cu("GraphExecDestroy", executable)
        assert cu.code("GraphLaunch", executable, stream) == 1
    """,
    )


def test_what_disturbs_a_capture_spoils_it_and_says_which_way(machine: Path) -> None:
    graphs(
        machine,
        """
        other, event, out, status = cu.stream(), cu.event(), c_void_p(), c_int()
        def begin(mode=0, of=stream):
            cu("StreamBeginCapture_v2", of, mode)
        def end(of=stream):
            return cu.code("StreamEndCapture", of, byref(out))
        begin()
        assert cu.code("StreamSynchronize", stream) == 900 and end() == 901
        begin()
        assert cu.code("MemAlloc_v2", byref(c_uint64()), 1) == 900 and end() == 901
        begin(2)
        cu.alloc(1)
        assert end() == 0
        begin()
        cu("EventRecord", event, stream)
        assert cu.code("EventQuery", event) == 907 and end() == 901
        begin()
        cu.launch(spin, stream, ns=1)
        cu("EventRecord", event, stream)
        cu("StreamWaitEvent", other, event, 0)
        cu.launch(spin, other, ns=1)
        assert end(other) == 903 and end() == 904
        outside = cu.event()
        cu("EventRecord", outside, cu.stream())
        begin()
        assert cu.code("StreamWaitEvent", stream, outside, 0) == 905 and end() == 901
        blocking = cu.stream(0)
        begin(0, blocking)
        assert cu.code("MemsetD8_v2", 0, 0, 0) == 906 and end(blocking) == 901
        assert cu.code("StreamBeginCapture_v2", 0, 0) == 900 and end() == 401
        begin()
        cu("StreamIsCapturing", stream, byref(status))
        assert status.value == 1 and end() == 0
    """,
    )


def test_a_graph_built_by_hand_runs_its_nodes_in_order_and_calls_the_host(machine: Path) -> None:
    graphs(
        machine,
        """
        p, seen = cu.alloc(64), []
        source = create_string_buffer(b"before", 7)
        @CFUNCTYPE(None, c_void_p)
        def host(data):
            seen.append(time.monotonic())
            source.value = b"after."
        class Copy(Structure):
            _fields_ = [("sx", c_size_t * 4), ("st", c_int), ("sh", c_void_p), ("sd", c_uint64), ("sa", c_void_p),
                        ("r0", c_void_p), ("sp", c_size_t * 2), ("dx", c_size_t * 4), ("dt", c_int), ("dh", c_void_p),
                        ("dd", c_uint64), ("da", c_void_p), ("r1", c_void_p), ("dp", c_size_t * 2), ("w", c_size_t),
                        ("h", c_size_t), ("d", c_size_t)]
        graph = cu.get(c_void_p, "GraphCreate", 0)
        first = add("Kernel", graph, (), byref(kernel(20 * MS)))
        call = add("Host", graph, (first,), byref(Host(cast(host, c_void_p))))
        copy = add("Memcpy", graph, (call,), byref(Copy(st=1, sh=addressof(source), dt=2, dd=p, w=6, h=1, d=1)), None)
        fill = add("Memset", graph, (copy,), byref(Fill(p + 8, 0, 7, 1, 4, 1)), None)
        empty = add("Empty", graph, (fill,))
        began = time.monotonic()
        executable = instantiate(graph)
        cu("GraphLaunch", executable, stream)
        cu("StreamSynchronize", stream)
        assert seen[0] - began > 0.019
        assert cu.read(p, 12) == b"after." + bytes(2) + bytes([7] * 4)
        kind, enabled = c_int(), c_uint()
        cu("GraphNodeGetType", fill, byref(kind))
        assert kind.value == 2
        cu("GraphNodeSetEnabled", executable, fill, 0)
        cu("GraphNodeGetEnabled", executable, fill, byref(enabled))
        assert enabled.value == 0
        cu("MemsetD8_v2", p, 0, 64)
        cu("GraphLaunch", executable, stream)
        cu("StreamSynchronize", stream)
        assert cu.read(p + 8, 4) == bytes(4) and len(seen) == 2
        cu("GraphAddDependencies", graph, nodes(empty), nodes(first), 1)
        assert cu.code("GraphInstantiateWithFlags", byref(c_void_p()), graph, 0) == 1
        cu("GraphDestroyNode", fill)
        assert count(graph) == 4 and cu.code("GraphDestroyNode", fill) == 1
    """,
    )


def test_an_executable_graph_takes_new_parameters_and_refuses_another_shape(machine: Path) -> None:
    graphs(
        machine,
        """
        def build(*durations, extra=False):
            graph, last = cu.get(c_void_p, "GraphCreate", 0), ()
            for ns in durations:
                last = (add("Kernel", graph, last, byref(kernel(ns))),)
            return graph, last[0]
        graph, node = build(2 * MS, 3 * MS)
        executable = instantiate(graph)
        assert abs(took(executable, stream) - 5) < 0.1
        cu("GraphExecKernelNodeSetParams_v2", executable, node, byref(kernel(13 * MS)))
        assert abs(took(executable, stream) - 15) < 0.1
        read = Kernel()
        cu("GraphKernelNodeGetParams_v2", node, byref(read))
        inner = cast(read.params, POINTER(c_void_p))[0]
        assert cast(inner, POINTER(c_uint64))[0] == 3 * MS and read.f == spin
        error, result = c_void_p(), c_int()
        cu("GraphExecUpdate", executable, build(8 * MS, 12 * MS)[0], byref(error), byref(result))
        assert result.value == 0 and abs(took(executable, stream) - 20) < 0.1
        class Info(Structure):
            _fields_ = [("result", c_int), ("node", c_void_p), ("origin", c_void_p)]
        info = Info()
        assert cu.code("GraphExecUpdate_v2", executable, build(MS)[0], byref(info)) == 910 and info.result == 2
        graph, node = build(MS)
        add("Empty", graph, (node,))
        assert cu.code("GraphExecUpdate_v2", executable, graph, byref(info)) == 910 and info.result == 3
        assert info.node and abs(took(executable, stream) - 20) < 0.1
        clone = cu.get(c_void_p, "GraphClone", graph)
        assert count(clone) == 2 and cu.get(c_void_p, "GraphNodeFindInClone", node, clone) != node
        whole = cu.get(c_void_p, "GraphCreate", 0)
        child = add("ChildGraph", whole, (), graph)
        add("ChildGraph", whole, (child,), graph)
        assert abs(took(instantiate(whole), stream) - 2) < 0.1
    """,
    )


def test_memory_nodes_hold_memory_from_their_launch_to_their_free(machine: Path) -> None:
    graphs(
        machine,
        """
        class Alloc(Structure):
            _fields_ = [("type", c_int), ("handles", c_int), ("where", c_int), ("id", c_int), ("security", c_void_p),
                        ("max", c_size_t), ("usage", c_ushort), ("reserved", c_char * 54), ("access", c_void_p),
                        ("count", c_size_t), ("size", c_size_t), ("pointer", c_uint64)]
        def reserved(attribute=2):
            value = c_uint64()
            cu("DeviceGetGraphMemAttribute", 0, attribute, byref(value))
            return value.value
        free = cu.memory()[0]
        graph = cu.get(c_void_p, "GraphCreate", 0)
        params = Alloc(1, 0, 1, 0, size=3 * MIB)
        alloc = add("MemAlloc", graph, (), byref(params))
        fill = add("Memset", graph, (alloc,), byref(Fill(params.pointer, 0, 5, 1, 100, 1)), None)
        executable = instantiate(graph)
        assert cu.memory()[0] == free
        cu("GraphLaunch", executable, stream)
        cu("StreamSynchronize", stream)
        assert free - cu.memory()[0] == reserved() == 4 * MIB and reserved(0) == 3 * MIB
        assert cu.read(params.pointer, 100) == bytes([5] * 100)
        assert cu.code("GraphLaunch", executable, stream) == 1
        cu("MemFreeAsync", params.pointer, stream)
        assert reserved(0) == 0 and reserved() == 4 * MIB
        cu("DeviceGraphMemTrim", 0)
        assert cu.memory()[0] == free
        cu("GraphExecDestroy", executable)
        executable = instantiate(graph, 1)
        for _ in range(3):
            cu("GraphLaunch", executable, stream)
        cu("StreamSynchronize", stream)
        assert free - cu.memory()[0] == 4 * MIB
        cu("StreamBeginCapture_v2", stream, 0)
        p = cu.get(c_uint64, "MemAllocAsync", 5 * MIB, stream)
        cu("MemsetD8Async", p, 1, 10, stream)
        cu("MemFreeAsync", p, stream)
        out = c_void_p()
        cu("StreamEndCapture", stream, byref(out))
        assert count(out.value) == 3
        own = instantiate(out.value)
        for _ in range(3):
            cu("GraphLaunch", own, stream)
        cu("StreamSynchronize", stream)
        assert reserved(0) == 3 * MIB
    """,
    )


def test_a_graph_keeps_the_programs_objects_until_it_goes(machine: Path) -> None:
    graphs(
        machine,
        """
        gone = []
        @CFUNCTYPE(None, c_void_p)
        def destroy(data):
            gone.append(data)
        thing = cu.get(c_void_p, "UserObjectCreate", 7, destroy, 1, 1)
        graph = cu.get(c_void_p, "GraphCreate", 0)
        cu("GraphRetainUserObject", graph, thing, 1, 1)
        executable = instantiate(graph)
        cu("GraphDestroy", graph)
        assert not gone
        cu("GraphExecDestroy", executable)
        assert gone == [7] and cu.code("UserObjectRelease", thing, 1) == 1
    """,
    )
