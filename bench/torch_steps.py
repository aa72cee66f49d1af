"""Unmodified PyTorch, one step of it: `torch_steps.py STEP [WORDS]` prints what it saw as one JSON
object.

Run by bench/torch_on_simulated.py with the Python of PyTorch's own environment, inside a job of a
pool. Simulated kernels do not compute, so nothing here looks at a kernel's results, and no tensor
that a kernel wrote is printed.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

CUDA = torch.cuda
CHUNK = 256 << 20


def empty(number: int) -> torch.Tensor:
    """That many bytes on the card."""
    return torch.empty(number, dtype=torch.uint8, device="cuda")


def sight() -> dict[str, Any]:
    free, total = CUDA.mem_get_info()
    properties = CUDA.get_device_properties(0)
    return {"devices": CUDA.device_count(), "name": properties.name, "total": total, "free": free,
            "property": properties.total_memory}  # fmt: skip


def memory() -> dict[str, Any]:
    before = CUDA.mem_get_info()[0]
    held = empty(1 << 30)
    between = CUDA.mem_get_info()[0]
    del held
    CUDA.empty_cache()
    return {"taken": before - between, "back": CUDA.mem_get_info()[0] - between}


def fill(chunk: int = CHUNK) -> dict[str, Any]:
    """Chunks until PyTorch raises its own error, then all of it back, and one chunk again."""
    held: list[torch.Tensor] = []
    message = ""
    try:
        while len(held) < 10_000:
            held.append(empty(chunk))
    except CUDA.OutOfMemoryError as error:
        message = str(error).splitlines()[0]
    got = len(held) * chunk
    held.clear()
    CUDA.empty_cache()
    return {
        "bytes": got,
        "message": message,
        "free_after": CUDA.mem_get_info()[0],
        "again": empty(chunk).numel(),
    }


def hold(number: str) -> dict[str, Any]:
    """As many bytes as were asked, said at once, kept until standard input ends; then how much more
    there was."""
    held = empty(int(number))
    print(json.dumps({"held": held.numel(), "total": CUDA.mem_get_info()[1]}), flush=True)
    sys.stdin.read()
    return {"more": fill()["bytes"]}


def copies() -> dict[str, Any]:
    sent = torch.randn(1 << 20)
    on_card = sent.cuda()
    pinned = sent.pin_memory().cuda(non_blocking=True)
    CUDA.synchronize()
    return {"plain": bool((on_card.cpu() == sent).all()), "pinned": bool((pinned.cpu() == sent).all()),
            "on_card": bool((on_card.clone().cpu() == sent).all())}  # fmt: skip


def streams() -> dict[str, Any]:
    stream = CUDA.Stream()
    start, end = CUDA.Event(enable_timing=True), CUDA.Event(enable_timing=True)
    tensor = torch.ones(1000, device="cuda")
    with CUDA.stream(stream):
        start.record(stream)
        for _ in range(200):
            tensor.mul_(2)
        end.record(stream)
    end.synchronize()
    return {"milliseconds": start.elapsed_time(end), "done": stream.query()}


def graphs() -> dict[str, Any]:
    """A captured copy moves bytes at each replay, and not before."""
    source, target = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    graph, host = CUDA.CUDAGraph(), torch.arange(1000.0)
    with CUDA.graph(graph):
        target.copy_(source)
        source.mul_(2)
    captured = float(target.cpu().sum())
    source.copy_(host)
    graph.replay()
    CUDA.synchronize()
    start = time.monotonic()
    for _ in range(100):
        graph.replay()
    CUDA.synchronize()
    return {
        "captured": captured,
        "replayed": bool((target.cpu() == host).all()),
        "seconds": time.monotonic() - start,
    }


def work(seconds: str) -> dict[str, Any]:
    """Kernels one after another for that long, said when it begins; how many were done in the
    middle half of it."""
    tensor = torch.ones(64 << 20, device="cuda")
    tensor.mul_(2)
    CUDA.synchronize()
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    begin, length = time.monotonic(), float(seconds)
    done = 0
    while (now := time.monotonic() - begin) < length:
        for _ in range(8):
            tensor.mul_(2)
        CUDA.synchronize()
        done += 8 if length / 4 <= now < length * 3 / 4 else 0
    return {"kernels": done}


def training() -> dict[str, Any]:
    """Elementwise work, its gradient and an optimiser; matrices would need cuBLAS."""
    weight = torch.nn.Parameter(torch.ones(100_000, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        torch.sigmoid(weight * weight).sum().backward()
        optimizer.step()
    CUDA.synchronize()
    return {"gradient": list(weight.grad.shape) if weight.grad is not None else None}


STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    step.__name__: step
    for step in (sight, memory, fill, hold, copies, streams, graphs, work, training)
}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](*sys.argv[2:])), flush=True)
