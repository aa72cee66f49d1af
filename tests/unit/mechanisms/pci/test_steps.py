"""Plans in processes of their own: withdrawn ones do nothing, failures are told."""

from __future__ import annotations

from pathlib import Path

from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.pci.operations import Operation
from gpupool.mechanisms.pci.steps import PlanRunner
from gpupool.mechanisms.slow_step import StepResult
from gpupool.probes.nvml.gate import GATE
from tests.support.handover_builders import CARD, build_card_machine
from tests.support.supervised import until


def run(root: Path, folder: Path, address: str) -> StepResult:
    """Run a plan in a real process; on plain files a probe has no effect."""
    plan = [{"verb": "bind", "address": address, "module": "vfio_pci"}]

    def call() -> StepResult | NotYet:
        return PlanRunner().run_plan(root, folder, "enter", plan, "it is being bound")

    result = until(lambda: isinstance(answer := call(), StepResult) and answer)
    assert isinstance(result, StepResult)
    return result


def test_a_plan_without_effect_ends_with_its_reason(tmp_path: Path) -> None:
    root = build_card_machine(tmp_path / "root")
    result = run(root, tmp_path, CARD)
    assert result.exit_code == 1
    assert f"{CARD} is on driver nvidia, expected vfio-pci" in result.output
    assert not list(tmp_path.glob("*enter*")), "the next call starts it anew"


def test_an_address_that_is_none_ends_with_a_failure(tmp_path: Path) -> None:
    result = run(build_card_machine(tmp_path / "root"), tmp_path, "../../etc")
    assert result.exit_code != 0
    assert "not a PCI address" in result.output


def test_a_plan_that_does_not_run_can_be_withdrawn(tmp_path: Path) -> None:
    plan = PlanRunner.locate_plan(tmp_path, "enter")
    plan.write_text("[]")
    assert PlanRunner().withdraw_plan(tmp_path, "enter")
    assert not plan.exists()


def test_nvml_is_closed_for_plans_that_move_an_nvidia_card_alone(tmp_path: Path) -> None:
    daemon = {"verb": "restore-persistence", "address": CARD, "record": str(tmp_path / "none")}
    function = {"verb": "wait-until-idle", "nodes": [], "seconds": 0.1}
    for plan, is_closed in (([function], False), ([function, daemon], True)):
        folder = tmp_path / str(is_closed)
        folder.mkdir()

        def call(folder: Path = folder, plan: list[Operation] = plan) -> StepResult | NotYet:
            return PlanRunner().run_plan(tmp_path, folder, "leave", plan, "it returns")

        assert isinstance(call(), NotYet)
        assert bool(GATE.explain_suspension()) is is_closed
        assert until(lambda: isinstance(call(), StepResult))
        assert GATE.await_end(10)
        assert not list(folder.iterdir())
