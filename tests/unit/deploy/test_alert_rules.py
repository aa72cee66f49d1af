"""Alert rules: they name what /metrics has, lead to a page and a command, and fire when they must."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.kubernetes.plugin import COMMANDS
from gpupool.terminal.commands import SUMMARIES
from gpupool.terminal.parser import parse_command
from tests.support.links import ROOT, anchors
from tests.support.promql import list_faults, list_labels, read_families

RULES = ROOT / "deploy" / "prometheus" / "rules"
CASES = Path(__file__).parent / "cases"
HOSTS = ("cluster", "common", "pool")
COMMAND = re.compile(r"`((?:kubectl )?gpupool [^`]+)`")
TEMPLATE = re.compile(r"\{\{ *\$labels\.(\w+) *\}\}")


@cache
def read_rules(host: str) -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((RULES / f"{host}.yaml").read_text())["groups"]
    return list(group["rules"])


def list_ids() -> list[tuple[str, str]]:
    return [(host, rule["alert"]) for host in HOSTS for rule in read_rules(host)]


def find_rule(host: str, alert: str) -> dict[str, Any]:
    (found,) = [rule for rule in read_rules(host) if rule["alert"] == alert]
    return found


@pytest.mark.parametrize(("host", "alert"), list_ids())
def test_expression_names_families_and_labels_that_exist(host: str, alert: str) -> None:
    rule = find_rule(host, alert)
    families = read_families()
    assert list_faults(rule["expr"], families) == []
    shown = set(TEMPLATE.findall(" ".join(rule["annotations"].values())))
    assert shown <= list_labels(rule["expr"], families)


def test_a_name_or_label_that_no_family_has_is_found() -> None:
    families = read_families()
    assert list_faults("gpupool_card_faild == 1", families) == ["family gpupool_card_faild"]
    assert list_faults('gpupool_jobs{stat="pending"}', families) == ["label stat of gpupool_jobs"]
    assert list_faults("sum by (tenat) (gpupool_tenant_held_milli)", families) == [
        "label tenat of by (tenat)"
    ]


@pytest.mark.parametrize(("host", "alert"), list_ids())
def test_alert_has_a_runbook_and_a_command_that_is_accepted(host: str, alert: str) -> None:
    rule = find_rule(host, alert)
    notes = rule["annotations"]
    page, _, anchor = notes["runbook_url"].partition("#")
    assert anchor in anchors(ROOT / page)
    assert notes["summary"]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    found = COMMAND.findall(notes["description"])
    assert found or "`kubectl describe pod" in notes["description"]
    for line in found:
        words = TEMPLATE.sub("NAME", line).split()
        if words[0] == "kubectl":
            assert words[2] in COMMANDS, line
        else:
            assert words[1] in SUMMARIES, line
            parse_command(words[1], words[2:])


@pytest.mark.parametrize("host", HOSTS)
def test_every_alert_has_a_case_that_raises_it_and_one_that_does_not(host: str) -> None:
    raised: dict[str, set[bool]] = {}
    for case in yaml.safe_load((CASES / f"{host}.yaml").read_text())["tests"]:
        for check in case["alert_rule_test"]:
            raised.setdefault(check["alertname"], set()).add(bool(check["exp_alerts"]))
    alerts = {rule["alert"] for rule in read_rules(host)}
    assert {alert for alert in alerts if raised.get(alert) != {True, False}} == set()


# promtool ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is missing: apt-get install prometheus")
    return found


def check_rules(promtool: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run all cases on the rules of a folder."""
    files = []
    for host in HOSTS:
        text = (CASES / f"{host}.yaml").read_text()
        named = f"../../../../deploy/prometheus/rules/{host}.yaml"
        assert named in text
        files.append(folder / f"case-{host}.yaml")
        files[-1].write_text(text.replace(named, f"{host}.yaml"))
    command = [promtool, "test", "rules", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def copy_rules(folder: Path, change: Any) -> None:
    for host in HOSTS:
        text = yaml.safe_load((RULES / f"{host}.yaml").read_text())
        for rule in text["groups"][0]["rules"]:
            change(rule)
        (folder / f"{host}.yaml").write_text(yaml.safe_dump(text))


def test_rules_raise_what_their_cases_say(promtool: str, tmp_path: Path) -> None:
    for host in HOSTS:
        shutil.copy(RULES / f"{host}.yaml", tmp_path)
    done = check_rules(promtool, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_for_fails_the_case_of_every_alert(promtool: str, tmp_path: Path) -> None:
    def change(rule: dict[str, Any]) -> None:
        rule["for"] = "0s" if "for" in rule else "24h"

    copy_rules(tmp_path, change)
    done = check_rules(promtool, tmp_path)
    assert done.returncode != 0
    failed = re.findall(r"alertname: ?(\w+)", done.stdout + done.stderr)
    assert set(failed) == {alert for _, alert in list_ids()}
