"""Documents: what a version must fulfil, and that the shipped ones do."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import ValidationError

from gpupool.base.errors import BadTemplate
from gpupool.model.workspaces.programs import JUPYTER
from gpupool.templates.catalogue import read_catalogue
from gpupool.templates.document import check_document
from gpupool.wire.templates.documents import TemplateIn

WORDS = {"en": "x"}
GOOD: dict[str, Any] = {
    "name": "mine",
    "version": 1,
    "summary": WORDS,
    "fields": {
        "lr": {"type": "number", "title": WORDS, "minimum": 0, "maximum": 1, "default": 0.5},
        "words": {"type": "array", "title": WORDS},
        "text": {"title": WORDS},
    },
    "job": {"argv": ["python", "${words}", "--lr=${lr}"], "gpu": "${lr}"},
    "follow": ["gpupool logs ${job} ${text}"],
}


def change(path: str, value: Any) -> dict[str, Any]:
    body = copy.deepcopy(GOOD)
    *folders, last = path.split("/")
    place = body
    for name in folders:
        place = place[name]
    place[last] = value
    return body


def test_a_good_document_passes() -> None:
    check_document(TemplateIn.model_validate(GOOD))


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        ("fields/name", {"title": WORDS}, "fields.name"),
        ("fields/dry_run", {"title": WORDS}, "fields.dry_run"),
        ("fields/lr/default", 2, "fields.lr.default"),
        ("fields/lr/minimum", 3, "fields.lr"),
        ("fields/lr/pattern", "x", "fields.lr"),
        ("fields/lr/enum", [0.5, "x"], "fields.lr.enum"),
        ("fields/text/maximum", 1, "fields.text"),
        ("fields/text/pattern", "(", "fields.text"),
        ("fields/text/max_items", 1, "fields.text"),
        ("job/argv", ["python", "${foreign}"], "job.argv.1"),
        ("job/argv", ["python", ["--x", "${foreign}"]], "job.argv.1.1"),
        ("job/env", {"A": "${foreign}"}, "job.env.A"),
        ("job/argv", ["sh", "-c", "echo ${text}"], "job.argv"),
        ("job/argv", ["/bin/bash", "-euxc", "echo ${text}"], "job.argv"),
        ("job/argv", ["python3", "-c", "print('${text}')"], "job.argv"),
        ("job/gpu", "${text}", "job.gpu"),
        ("job/gpu", "${lr}0", "job.gpu"),
        ("job/preemptible", "${lr}", "job.preemptible"),
        ("job/mounts", ["/a:/b"], "job.mounts"),
        ("job/sweep", {"parameters": "${text}"}, "job.sweep.parameters"),
        ("job/sweep", {"parameters": "${words}", "argument": "--x"}, "job.sweep.argument"),
        ("follow", ["gpupool logs ${foreign}"], "follow.0"),
    ],
)
def test_a_document_that_contradicts_itself_is_refused_with_the_place(
    path: str, value: Any, place: str
) -> None:
    with pytest.raises(BadTemplate) as caught:
        check_document(TemplateIn.model_validate(change(path, value)))
    assert caught.value.details["place"] == place


def test_array_sweep_and_gang_exclude_each_other() -> None:
    body = copy.deepcopy(GOOD)
    body["job"] |= {"array": 2, "gang": {"size": 2}}
    with pytest.raises(BadTemplate, match="array and gang exclude each other"):
        check_document(TemplateIn.model_validate(body))


def test_the_shipped_documents_are_whole_in_both_languages() -> None:
    shipped = read_catalogue()
    assert len(shipped) == 9
    for documents in shipped.values():
        for document in documents.values():
            texts = [document.summary]
            for field in document.fields.values():
                texts += [field.title, *([field.description] if field.description else [])]
            assert all(text.zh for text in texts), document.name


def test_the_notebook_template_starts_what_gpupool_notebook_starts() -> None:
    argv = read_catalogue()["notebook"][1].job.argv
    assert argv[2] == JUPYTER.script


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("job/gpu", float("inf")),
        ("job/memory_gib", float("nan")),
        ("job/max_hours", 1e300),
        ("job/count", 10**400),
        ("job/argv", []),
        ("job/argv", ["x", []]),
        ("fields/lr/default", float("inf")),
        ("fields/lr/maximum", float("nan")),
        ("fields/Lr", {"title": WORDS}),
        ("job/env", {"A=B": "x"}),
        ("job/foreign", 1),
        ("version", 0),
    ],
)
def test_a_document_out_of_bounds_is_no_document(path: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        TemplateIn.model_validate(change(path, value))
