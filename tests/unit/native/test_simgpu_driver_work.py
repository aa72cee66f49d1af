"""Work of the simulated driver: kernels take the time they are said to take, streams and events
order it, functions of the host run in their turn, and a fault ends its context and no other.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.probes.simgpu import SimulatedMachine
from tests.unit.native.simgpu_cuda import hear, make_machine, run, running, tell


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return make_machine(tmp_path)


def test_a_kernel_takes_its_argument_or_the_time_in_its_name_or_what_the_environment_says(
    machine: Path,
) -> None:
    run(machine, """
        cu.start()
        stream, a, b = cu.stream(), cu.event(), cu.event()
        spin = cu.function(b"gpupool_spin_ns")
        def took(name, times, **how):
            f = cu.function(name)
            cu.launch(spin, stream, ns=200 * MS)  # meanwhile all is in the stream, however busy the machine is
            cu("EventRecord", a, stream)
            for _ in range(times):
                cu.launch(f, stream, **how)
            cu("EventRecord", b, stream)
            assert cu.code("EventElapsedTime", byref(c_float()), a, b) == NOT_READY
            cu("EventSynchronize", b)
            return cu.elapsed_ms(a, b)
        assert abs(took(b"gpupool_spin_ns", 4, ns=5 * MS) - 20) < 0.1
        assert abs(took(b"step_us_250", 40) - 10) < 0.1
        buffer, size = c_uint64(30 * MS), c_size_t(8)
        extra = (c_void_p * 5)(1, addressof(buffer), 2, addressof(size), 0)
        cu.launch(spin, stream, ns=200 * MS)
        cu("EventRecord", a, stream)
        cu("LaunchKernel", cu.function(b"gpupool_spin_ns"), 1, 1, 1, 1, 1, 1, 0, stream, None, extra)
        cu("EventRecord", b, stream)
        cu("StreamSynchronize", stream)
        assert abs(cu.elapsed_ms(a, b) - 30) < 0.1
    """)  # fmt: skip
    fixed = """
        cu.start()
        stream, a, b = cu.stream(), cu.event(), cu.event()
        f = cu.function(b"anything", b".version 8.0 .entry anything() {}")
        cu.launch(cu.function(b"gpupool_spin_ns"), stream, ns=200 * MS)
        cu("EventRecord", a, stream)
        for _ in range(10):
            cu.launch(f, stream, grid=int(os.environ["GRID"]), block=256)
        cu("EventRecord", b, stream)
        cu("CtxSynchronize")
        print(cu.elapsed_ms(a, b))
    """
    assert float(run(machine, fixed, GPUPOOL_SIMGPU_KERNEL_US="700", GRID="1")) == pytest.approx(
        7, abs=0.1
    )
    small, large = (float(run(machine, fixed, GRID=grid)) for grid in ("1", "100000"))
    assert 0 < small < 1 < large


def test_events_are_in_the_order_of_their_streams_and_waits_cross_them(machine: Path) -> None:
    run(machine, """
        cu.start()
        f = cu.function(b"gpupool_spin_ns")
        one, two, done, end = cu.stream(), cu.stream(), cu.event(), cu.event()
        start = cu.event()
        cu.launch(f, one, ns=200 * MS)  # meanwhile all is in the streams, however busy the machine is
        cu("EventRecord", start, one)
        cu.launch(f, one, ns=20 * MS)
        cu("EventRecord", done, one)
        cu("StreamWaitEvent", two, done, 0)
        cu.launch(f, two, ns=5 * MS)
        cu("EventRecord", end, two)
        assert cu.code("EventQuery", end) == NOT_READY == cu.code("StreamQuery", two)
        cu("StreamSynchronize", two)
        assert cu.code("EventQuery", done) == cu.code("StreamQuery", one) == 0
        assert 24.9 < cu.elapsed_ms(start, end) < 26
        assert cu.elapsed_ms(done, end) > 4.9
        assert cu.code("EventElapsedTime", byref(c_float()), start, cu.event()) == 400
        assert cu.code("EventElapsedTime", byref(c_float()), start, cu.event(2)) == 400
        cu("EventDestroy_v2", done)
        assert cu.code("EventQuery", done) == 400
        cu("StreamDestroy_v2", two)
        assert cu.code("StreamQuery", two) == 400 == cu.code("LaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, two, None, None)
    """)  # fmt: skip


def test_the_default_stream_waits_for_blocking_streams_and_a_threads_own_does_not(
    machine: Path,
) -> None:
    run(machine, """
        cu.start()
        f = cu.function(b"gpupool_spin_ns")
        blocking, free, a, b = cu.stream(0), cu.stream(1), cu.event(), cu.event()
        cu("EventRecord", a, blocking)
        cu.launch(f, blocking, ns=30 * MS)
        cu.launch(f, 0, ns=10 * MS)
        cu("EventRecord", b, 0)
        cu("StreamSynchronize", 0)
        assert cu.elapsed_ms(a, b) > 39
        spin = c_uint64(200 * MS)
        places = (c_void_p * 1)(addressof(spin))
        cu("LaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, free, places, None)
        cu("LaunchKernel_ptsz", f, 1, 1, 1, 1, 1, 1, 0, 0, places, None)
        cu("StreamSynchronize", 0)
        assert cu.code("StreamQuery_ptsz", 0) == NOT_READY == cu.code("StreamQuery", 2)
        def identity(name, stream):
            value = c_uint64()
            cu(name, stream, byref(value))
            return value.value
        assert identity("StreamGetId_ptsz", 0) == identity("StreamGetId", 2) != identity("StreamGetId", 0)
        assert identity("StreamGetId", 1) == identity("StreamGetId_ptsz", 1) == identity("StreamGetId", 0)
        other = []
        def thread():
            cu.start()
            other.append(identity("StreamGetId", 2))
        t = threading.Thread(target=thread)
        t.start()
        t.join()
        assert other[0] != identity("StreamGetId", 2)
    """)  # fmt: skip


def test_host_functions_run_in_their_turn_on_another_thread_and_data_waits_for_them(
    machine: Path,
) -> None:
    run(machine, """
        cu.start()
        f, stream = cu.function(b"gpupool_spin_ns"), cu.stream()
        source, seen = create_string_buffer(b"early", 6), []
        @CFUNCTYPE(None, c_void_p)
        def fill(data):
            seen.append((threading.get_ident(), time.monotonic(), data, cu.code("StreamSynchronize", stream)))
            source.value = b"later"
        p, gate = cu.alloc(64), cu.alloc(64)
        began = time.monotonic()
        cu("StreamWaitValue32_v2", stream, gate, 1, 0)
        cu.launch(f, stream, ns=50 * MS)
        cu("LaunchHostFunc", stream, fill, 77)
        cu("MemcpyHtoDAsync_v2", p, source, 6, stream)
        assert not seen
        cu("StreamWriteValue32_v2", cu.stream(), gate, 1, 0)
        cu("StreamSynchronize", stream)
        assert cu.read(p, 5) == b"later"
        (thread, when, data, inside), = seen
        assert thread != threading.get_ident() and when - began > 0.049 and data == 77
        assert inside == 800
        calls = []
        @CFUNCTYPE(None, c_void_p, c_int, c_void_p)
        def callback(of, status, data):
            calls.append((of, status, data))
        cu("StreamAddCallback", stream, callback, 5, 0)
        cu("StreamSynchronize", stream)
        assert calls == [(stream, 0, 5)]
    """)  # fmt: skip


def test_a_stream_waits_for_a_value_that_another_writes(machine: Path) -> None:
    run(machine, """
        cu.start()
        waiting, writing, p = cu.stream(), cu.stream(), cu.alloc(64)
        cu("StreamWaitValue32_v2", waiting, p, 3, 0)
        cu("MemsetD8Async", p + 8, 1, 4, waiting)
        assert cu.code("StreamQuery", waiting) == NOT_READY
        cu("StreamWriteValue32_v2", writing, p, 2, 0)
        cu("StreamSynchronize", writing)
        assert cu.code("StreamQuery", waiting) == NOT_READY
        cu("StreamWriteValue32_v2", writing, p, 3, 0)
        cu("StreamSynchronize", waiting)
        assert cu.read(p, 12) == bytes([3, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
        assert cu.code("StreamWaitValue32_v2", waiting, p + 1, 3, 0) == 1
    """)  # fmt: skip


def test_what_a_card_refuses_to_launch_is_refused(machine: Path) -> None:
    run(machine, """
        cu.start()
        module = cu.get(c_void_p, "ModuleLoadData", PTX)
        assert cu.code("ModuleGetFunction", byref(c_void_p()), module, b"in_a_comment") == 500
        assert cu.code("ModuleGetGlobal_v2", byref(c_uint64()), None, module, b"nothing") == 500
        assert cu.code("ModuleLoadData", byref(c_void_p()), b"no code at all") == 200
        assert cu.code("ModuleLoad", byref(c_void_p()), b"/nowhere") == 301
        table, size = c_uint64(), c_size_t()
        cu("ModuleGetGlobal_v2", byref(table), byref(size), module, b"table")
        assert size.value == 64
        cu.write(table.value, b"x" * 64)
        f = cu.function(b"step_us_250")
        def launch(grid=(1, 1, 1), block=(1, 1, 1), shared=0, of=f, params=None):
            return cu.code("LaunchKernel", of, *grid, *block, shared, None, params, None)
        assert launch() == 0
        assert launch(grid=(0, 1, 1)) == launch(grid=(1, 65536, 1)) == launch(block=(1025, 1, 1)) == 1
        assert launch(block=(32, 33, 1)) == launch(block=(1, 1, 65)) == launch(shared=49153) == 1
        cu("FuncSetAttribute", f, 8, 100000)
        assert launch(shared=100000) == 0 and cu.code("FuncSetAttribute", f, 8, 300000) == 1
        assert launch(of=0xdead0) == 400
        add = cu.function(b"add")
        assert launch(of=add) == 1
        count, offset = c_size_t(), c_size_t()
        cu("FuncGetParamCount", add, byref(count))
        cu("FuncGetParamInfo", add, 2, byref(offset), byref(size))
        assert (count.value, offset.value, size.value) == (3, 16, 24)
        assert cu.code("LaunchCooperativeKernel", f, 100000, 1, 1, 1024, 1, 1, 0, None, None) == 720
        cu("ModuleUnload", module)
        assert cu.code("ModuleGetFunction", byref(c_void_p()), module, b"add") == 400
    """)  # fmt: skip


def test_a_library_has_kernels_and_one_module_in_each_context(machine: Path) -> None:
    run(machine, """
        cu.start()
        library = cu.get(c_void_p, "LibraryLoadData", PTX, None, None, 0, None, None, 0)
        assert cu.get(c_uint, "LibraryGetKernelCount", library) == 4
        kernel = cu.get(c_void_p, "LibraryGetKernel", library, b"step_us_250")
        function = cu.get(c_void_p, "KernelGetFunction", kernel)
        assert cu.get(c_char_p, "FuncGetName", function) == b"step_us_250"
        assert cu.get(c_char_p, "KernelGetName", kernel) == b"step_us_250"
        cu.launch(function)
        cu.launch(kernel)
        p = cu.get(c_uint64, "LibraryGetGlobal", None, library, b"table")
        cu.write(p, b"y" * 64)
        blocks = cu.get(c_int, "OccupancyMaxActiveBlocksPerMultiprocessor", function, 128, 0)
        assert blocks == 1024 // 128
        cu("LibraryUnload", library)
        assert cu.code("KernelGetFunction", byref(c_void_p()), kernel) == 400
        state = c_void_p()
        cu("LinkCreate_v2", 0, None, None, byref(state))
        cu("LinkAddData_v2", state, 1, PTX, len(PTX), b"name", 0, None, None)
        out, size = c_void_p(), c_size_t()
        cu("LinkComplete", state, byref(out), byref(size))
        cu.function(b"add", string_at(out.value, size.value))
        cu("LinkDestroy", state)
        log = create_string_buffer(b"old", 8)
        module, options, values = c_void_p(), (c_int * 2)(5, 6), (c_void_p * 2)(addressof(log), 8)
        cu("ModuleLoadDataEx", byref(module), PTX, 2, options, values)
        assert log.value == b"" and not values[1]
    """)  # fmt: skip


def test_a_fault_is_its_processs_own_and_sticks_until_the_context_is_made_anew(
    machine: Path,
) -> None:
    neighbour = """
        cu.start()
        cu.launch(cu.function(b"gpupool_spin_ns"), ns=100 * MS)
        print("running", flush=True)
        input()
        cu("CtxSynchronize")
        cu.alloc(1)
        print("well", flush=True)
    """
    with running(machine, neighbour) as other:
        assert hear(other) == "running"
        run(machine, """
            cu.start()
            stream = cu.stream()
            cu.launch(cu.function(b"gpupool_fault"), stream)
            assert cu.code("StreamSynchronize", stream) == ILLEGAL_ADDRESS
            for call in (("CtxSynchronize",), ("MemAlloc_v2", byref(c_uint64()), 1), ("StreamQuery", stream)):
                assert cu.code(*call) == ILLEGAL_ADDRESS, call
            cu("DevicePrimaryCtxReset_v2", 0)
            cu.start()
            cu.launch(cu.function(b"step_us_250"))
            cu("CtxSynchronize")
        """)  # fmt: skip
        tell(other)
        assert hear(other) == "well"
    with SimulatedMachine(machine) as view:
        assert view.read_condition(view.cards[0].uuid)[2] == 31


def test_a_lost_card_fails_every_call_and_a_new_process_cannot_use_it(machine: Path) -> None:
    with running(machine, """
        cu.start()
        print("up", flush=True)
        input()
        print(cu.code("CtxSynchronize"), cu.code("MemAlloc_v2", byref(c_uint64()), 1), flush=True)
    """) as process:  # fmt: skip
        assert hear(process) == "up"
        with SimulatedMachine(machine) as view:
            view.lose_card(view.cards[0].uuid)
        tell(process)
        first, second = hear(process).split()
        assert first != "0"
        assert second != "0"
    run(
        machine,
        'cu("Init", 0)\nassert cu.code("DevicePrimaryCtxRetain", byref(c_void_p()), 0) != 0\ncu.start(1)',
    )


EVENT_OWNER = """
cu.start()
f, stream = cu.function(b"gpupool_spin_ns"), cu.stream()
event = cu.get(c_void_p, "EventCreate", 6)
handle = create_string_buffer(64)
cu("IpcGetEventHandle", handle, event)
print(handle.raw.hex(), flush=True)
input()
cu.launch(f, stream, ns=600 * MS)
cu("EventRecord", event, stream)
print("recorded", flush=True)
input()
"""

EVENT_USER = """
class Handle(Structure):
    _fields_ = [("bytes", c_char * 64)]
cu.start()
handle = Handle.from_buffer_copy(bytes.fromhex(sys.stdin.readline()))
event = cu.get(c_void_p, "IpcOpenEventHandle", handle)
print("open", flush=True)
input()
assert cu.code("EventQuery", event) == NOT_READY
cu("StreamWaitEvent", 0, event, 0)
cu("StreamSynchronize", 0)
assert cu.code("EventQuery", event) == 0
print("seen", flush=True)
"""


def test_an_event_of_another_process_is_waited_for(machine: Path) -> None:
    with running(machine, EVENT_OWNER) as owner, running(machine, EVENT_USER) as user:
        tell(user, hear(owner))
        # The work begins when both programs have started, which takes its time on a busy machine.
        assert hear(user) == "open"
        tell(owner)
        assert hear(owner) == "recorded"
        tell(user)
        assert hear(user) == "seen"


def test_a_child_forked_after_cuinit_gets_nothing_and_one_forked_before_it_everything(
    machine: Path,
) -> None:
    run(machine, """
        def child(body):
            pid = os.fork()
            if not pid:
                try:
                    os._exit(body())
                finally:
                    os._exit(99)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        def whole():
            cu.start()
            cu.write(cu.alloc(5), b"alone")
            return 0
        assert child(whole) == 0
        cu.start()
        p = cu.alloc(MIB)
        def refused():
            codes = {cu.code("Init", 0), cu.code("MemFree_v2", p), cu.code("CtxSynchronize"),
                     cu.code("DeviceGetCount", byref(c_int()))}
            return 0 if codes == {3} else 1
        assert child(refused) == 0
        assert cu.read(p, 1) == bytes(1)
    """)  # fmt: skip


def test_before_cuinit_only_what_needs_no_card_answers(machine: Path) -> None:
    run(machine, """
        assert cu.code("DeviceGetCount", byref(c_int())) == 3 == cu.code("CtxSynchronize")
        assert cu.get(c_int, "DriverGetVersion") == 13000
        assert cu.code("Init", 1) == 1
        cu("Init", 0)
        assert cu.code("CtxSynchronize") == 201 == cu.code("MemAlloc_v2", byref(c_uint64()), 1)
    """)  # fmt: skip


def test_contexts_stack_and_a_destroyed_one_says_so(machine: Path) -> None:
    run(machine, """
        first = cu.start()
        second = c_void_p()
        cu("CtxCreate_v2", byref(second), 0, 1)
        assert cu.get(c_void_p, "CtxGetCurrent") == second.value and cu.get(c_int, "CtxGetDevice") == 1
        cu("CtxPushCurrent_v2", first)
        assert cu.get(c_int, "CtxGetDevice") == 0
        assert cu.get(c_void_p, "CtxPopCurrent_v2") == first
        stale = []
        def thread():
            cu("CtxSetCurrent", second)
            held.set()
            gone.wait()
            stale.append(cu.code("MemAlloc_v2", byref(c_uint64()), 1))
        held, gone = threading.Event(), threading.Event()
        t = threading.Thread(target=thread)
        t.start()
        held.wait()
        cu("CtxDestroy_v2", second)
        gone.set()
        t.join()
        assert stale == [709] and cu.code("CtxSetCurrent", second) == 709
        assert cu.get(c_void_p, "CtxGetCurrent") == first
        assert cu.code("CtxSetCurrent", 0x1230) == 201
        cu("DevicePrimaryCtxRelease_v2", 0)
        assert cu.code("DevicePrimaryCtxRelease_v2", 0) == 201
    """)  # fmt: skip


def test_visible_devices_are_chosen_and_ordered_by_the_environment(machine: Path) -> None:
    text = """
        code = cu.code("Init", 0)
        print(code, *[cu.get(c_int, "DeviceGetAttribute", 33, d) for d in range(cu.get(c_int, "DeviceGetCount"))]
              if not code else [])
    """
    _, first, second = run(machine, text).split()
    with SimulatedMachine(machine) as view:
        uuid = view.cards[1].uuid
    assert run(machine, text, CUDA_VISIBLE_DEVICES="1,0").split() == ["0", second, first]
    assert run(machine, text, CUDA_VISIBLE_DEVICES=uuid).split() == ["0", second]
    assert run(machine, text, CUDA_VISIBLE_DEVICES="0,7,1").split() == ["0", first]
    assert run(machine, text, CUDA_VISIBLE_DEVICES="").split() == ["100"]


def test_more_streams_than_the_card_has_queues_share_them(machine: Path) -> None:
    run(machine, """
        cu.start()
        f = cu.function(b"gpupool_spin_ns")
        streams = [cu.stream() for _ in range(600)]
        for stream in streams:
            cu.launch(f, stream, ns=1000)
        for stream in streams[::2]:
            cu("StreamDestroy_v2", stream)
        for stream in streams[1::2]:
            cu.launch(f, stream, ns=1000)
            cu("StreamSynchronize", stream)
            cu("StreamDestroy_v2", stream)
        cu("CtxSynchronize")
        again = [cu.stream() for _ in range(300)]
        cu("DevicePrimaryCtxReset_v2", 0)
        assert cu.code("StreamQuery", again[0]) == 400
    """)  # fmt: skip


def test_two_processes_get_half_of_a_card_each(machine: Path) -> None:
    load = """
        cu.start()
        f, a, b = cu.function(b"gpupool_spin_ns"), cu.event(), cu.event()
        print("ready", flush=True)
        input()
        cu("EventRecord", a, 0)
        for _ in range(200):
            cu.launch(f, ns=4 * MS)
        cu("EventRecord", b, 0)
        cu("CtxSynchronize")
        print(cu.elapsed_ms(a, b), flush=True)
    """
    with running(machine, load) as one, running(machine, load) as other:
        assert hear(one) == hear(other) == "ready"
        tell(one)
        tell(other)
        # 800 ms of work each: the one that ends first had the other beside it all the time but its
        # start, which may come late.
        assert max(float(hear(one)), float(hear(other))) > 1320
