"""Unmodified frameworks in a share of a real card, where they are installed beside this Python."""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

import pytest

from tests.gpu.conftest import RealCardPool

GIB = 1 << 30
MEMORY = 8 * GIB


def needs(module: str) -> pytest.MarkDecorator:
    """Looked for without importing it: a framework imported here would take a context outside any
    share."""
    return pytest.mark.skipif(
        importlib.util.find_spec(module) is None, reason=f"{module} is not installed here"
    )


def told(pool: RealCardPool, program: str, gpu: str = "0.5") -> dict[str, Any]:
    """The last line that a program printed in a share, as JSON."""
    out = pool.do("run", "--gpu", gpu, "--memory", "8GiB", "--", sys.executable, "-c", program)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


TORCH_MEMORY = """
import json, torch
free, total = torch.cuda.mem_get_info()
held = []
try:
    while True:
        held.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
except torch.cuda.OutOfMemoryError:
    pass
print(json.dumps({"total": total, "given": len(held) * (256 << 20)}))
"""
TORCH_WORK = """
import json, torch
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(256, 512, device="cuda"); y = x.sum(1, keepdim=True) * 0.01
losses = []
for step in range(200):
    optimizer.zero_grad(); loss = torch.nn.functional.mse_loss(model(x), y); loss.backward(); optimizer.step()
    losses.append(loss.item())
graph = torch.cuda.CUDAGraph(); z = torch.zeros(1 << 20, device="cuda"); torch.cuda.synchronize()
with torch.cuda.graph(graph):
    z.add_(1.0)
for _ in range(10):
    graph.replay()
torch.cuda.synchronize()
there = torch.arange(1 << 20)
same = bool((there.pin_memory().cuda(non_blocking=True).cpu() == there).all())
print(json.dumps({"fell": losses[-1] < losses[0], "graph": z[0].item(), "pinned": same}))
"""
TORCH_COMPILE = """
import json, torch
f = torch.compile(lambda a: (a.sin() * 2 + 1).sum())
a = torch.randn(1 << 20, device="cuda")
print(json.dumps({"same": bool(torch.allclose(f(a), (a.sin() * 2 + 1).sum(), rtol=1e-3))}))
"""
TORCH_PROCESSES = """
import json, torch, torch.multiprocessing as processes
def child(queue, back):
    tensor = queue.get(); back.put(int(tensor.sum().item())); del tensor
if __name__ == "__main__":
    context = processes.get_context("spawn"); queue, back = context.Queue(), context.Queue()
    worker = context.Process(target=child, args=(queue, back)); worker.start()
    tensor = torch.ones(1000, device="cuda"); queue.put(tensor); got = back.get(timeout=60); worker.join()
    print(json.dumps({"sum": got}))
"""


@needs("torch")
def test_pytorch_sees_the_share_and_ends_at_it(pool: RealCardPool) -> None:
    found = told(pool, TORCH_MEMORY)
    assert found["total"] == MEMORY
    assert MEMORY - (2 << 30) <= found["given"] <= MEMORY


@needs("torch")
def test_pytorch_trains_replays_graphs_and_copies_right(pool: RealCardPool) -> None:
    assert told(pool, TORCH_WORK) == {"fell": True, "graph": 10.0, "pinned": True}


@needs("torch")
@needs("triton")
def test_pytorch_compiles_and_triton_launches(pool: RealCardPool) -> None:
    assert told(pool, TORCH_COMPILE) == {"same": True}


@needs("torch")
def test_pytorch_shares_a_tensor_between_processes(pool: RealCardPool, tmp_path: Any) -> None:
    script = tmp_path / "two.py"
    script.write_text(TORCH_PROCESSES)
    out = pool.do("run", "--gpu", "0.5", "--memory", "8GiB", "--", sys.executable, str(script))
    assert json.loads(out.splitlines()[-1]) == {"sum": 1000}


@needs("cupy")
def test_cupy_sees_the_share_and_computes(pool: RealCardPool) -> None:
    program = (
        "import json, cupy; free, total = cupy.cuda.runtime.memGetInfo(); a = cupy.arange(1000); "
        'print(json.dumps({"total": total, "sum": int(a.sum())}))'
    )
    assert told(pool, program) == {"total": MEMORY, "sum": 499500}


@needs("jax")
def test_jax_computes_on_the_card(pool: RealCardPool) -> None:
    program = (
        "import os, json; os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'] = 'false'; import jax, jax.numpy as np; "
        'print(json.dumps({"platform": jax.devices()[0].platform, "sum": int(np.arange(1000).sum())}))'
    )
    assert told(pool, program) == {"platform": "gpu", "sum": 499500}
