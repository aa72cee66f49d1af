"""`gpupool project`: the projects of a tenant, created and listed."""

from __future__ import annotations

from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.client.scripted_pool import ScriptedPool


def test_project_create_without_a_tenant_takes_the_callers_own(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "tenants/nlp/projects", {"name": "nlp", "projects": ["default", "thesis"]})
    told = type_line("project create thesis")
    assert told == (0, "nlp has the projects default, thesis\n", "")
    assert [one.target for one in pool.requests] == [
        "/api/v1/whoami",
        "/api/v1/tenants/nlp/projects",
    ]
    type_line("project create thesis --tenant nlp")
    assert len(pool.requests) == 3


def test_project_create_refuses_a_bad_name_before_any_request(
    pool: ScriptedPool, type_line: TypedLine
) -> None:
    code, _, err = type_line("project create a/b")
    assert code == 2
    assert "a/b" in err
    assert pool.requests == []


def test_project_list_is_a_row_for_each_project_of_each_tenant(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    tenants = [{"name": "nlp", "projects": ["default", "thesis"]}]
    tenants.append({"name": "vision", "projects": ["default"]})
    answer_with("GET", "tenants", {"items": tenants, "next": None})
    assert type_line("project list -o csv")[1] == (
        "tenant,project\nnlp,default\nnlp,thesis\nvision,default\n"
    )


def test_project_list_of_one_tenant_asks_for_it_alone(
    pool: ScriptedPool, type_line: TypedLine
) -> None:
    assert type_line("project list --tenant nlp")[1] == (
        "TENANT  PROJECT\nnlp     default\nnlp     thesis\n"
    )
    assert [one.target for one in pool.requests] == ["/api/v1/tenants/nlp"]
