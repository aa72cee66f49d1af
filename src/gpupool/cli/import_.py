"""`gpupool import`: what manifests and job scripts of other systems mean here. Needs no pool and no cluster."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import GpupoolError
from gpupool.base.units import format_mib
from gpupool.cli.context import Context, say
from gpupool.cli.manifests import Document, documents, read_text
from gpupool.cli.output import clean, many, print_data
from gpupool.cli.parser import Parser, add_output

if TYPE_CHECKING:
    from gpupool.dialects.batch import JobClaim
    from gpupool.dialects.documents import Understood
    from gpupool.dialects.facts import NodeFacts
    from gpupool.dialects.workloads import Template

FORMATS = ("text", "json", "yaml")
_STDIN_SCRIPT = "job.sh"


def register(parser: Parser) -> None:
    parser.about = """
    FILE is a manifest (YAML or JSON, several documents; Pod, Deployment, StatefulSet, DaemonSet, Job, CronJob, MPIJob,
    PyTorchJob, RayJob, RayCluster, LeaderWorkerSet, JobSet, Volcano's Job, AppWrapper, List), a script with #SBATCH or
    #BSUB lines, or a configuration of dstack. A manifest is printed again in gpupool's words, the others as the line
    that submits it. With --explain it is instead, per container, the normal form, the rules that led to it and every
    guess.
    Understood are NVIDIA's plugin, HAMi, Volcano, qGPU, vcuda, cGPU, xGPU, KAI and Run:ai, Koordinator, OrionX,
    Bitfusion, Kueue and others (docs/reference/dialects.md). What cannot be meant here is refused.
    """
    parser.examples = [
        "gpupool import deployment.yaml --explain",
        "gpupool import deployment.yaml | kubectl apply -f -",
        "kubectl get deployment train -o yaml | gpupool import - --explain",
        "gpupool import job.sh --node-facts facts.yaml",
    ]
    parser.add_argument("file", metavar="FILE", help="a manifest or a script; - is standard input")
    parser.add_argument("--explain", action="store_true", help="say what it means, and why, instead of writing it anew")
    parser.add_argument("--strict", action="store_true", help="refuse words that begin as a known system's and are not")
    parser.add_argument("--node-facts", metavar="FILE", help="what is known of the nodes it was written for (YAML)")
    add_output(parser, FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    from gpupool.dialects.dstack import is_configuration

    facts = read_node_facts(options.node_facts)
    text = read_text(options.file)
    marks = {line.split(maxsplit=1)[0] for line in text.splitlines() if line.startswith(("#SBATCH", "#BSUB", "bsub "))}
    if marks:
        return _script(options, text, marks, facts)
    found = documents(options.file, text)
    if len(found) == 1 and is_configuration(found[0].value):
        return _configuration(options, found[0], facts)
    understood = _understand_all(found, facts, options.strict)
    if options.output != "text":
        print_data([told for one in understood for told in _told(*one, facts)], options.output)
    elif options.explain:
        blocks = ["\n".join(_explained(told)) for one in understood for told in _told(*one, facts)]
        sys.stdout.write("\n\n".join(blocks or [f"nothing in {options.file} asks for a card"]) + "\n")
    else:
        _written(options.file, understood)
    return 0


def read_node_facts(name: str | None) -> NodeFacts:
    """Facts from a file. Raises BadManifest with the line."""
    from gpupool.dialects.facts import UNKNOWN, read_facts

    if name is None:
        return UNKNOWN
    found = documents(name, read_text(name))
    try:
        return read_facts(found[0].value) if found else UNKNOWN
    except GpupoolError as error:
        raise found[0].placed(error) from None


def _understand_all(found: list[Document], facts: NodeFacts, strict: bool) -> list[tuple[Document, list[Understood]]]:
    from gpupool.dialects.documents import understand_document
    from gpupool.dialects.dra import Claims

    claims = Claims.of(one.value for one in found)
    understood = []
    for document in found:
        try:
            understood.append((document, understand_document(document.value, facts, strict=strict, claims=claims)))
        except GpupoolError as error:
            raise document.placed(error) from None
    return understood


def _told(document: Document, understood: list[Understood], facts: NodeFacts) -> list[dict[str, Any]]:
    """The normal form of every pod that asks for cards, as data."""
    from gpupool.dialects.normal import document as normal_form

    found = []
    for one in understood:
        if not (one.claim.containers or one.claim.notes or one.claim.unread):
            continue
        told: dict[str, Any] = _head(document, one.template) | normal_form(one.claim)
        for container, claim in zip(told["containers"], one.claim.containers, strict=True):
            container |= _scheduled(claim, one.claim.hints, facts)
        found.append(told)
    return found


def _head(document: Document, template: Template) -> dict[str, Any]:
    role = {"role": template.role} if template.role else {}
    where = {"file": document.file, "line": document.line(template.path)}
    return where | {"kind": template.kind, "name": template.name, **role, "replicas": template.replicas}


def _scheduled(claim: Any, hints: Any, facts: NodeFacts) -> dict[str, Any]:
    """What of it a claim to the scheduler does not say, and what a part of a card's memory comes to."""
    from gpupool.dialects.shapes import shape_of

    found = shape_of(claim, hints, facts.card_memory)
    size = found.shape.memory_bytes
    resolved = {"resolved": [f"{format_mib(size)} on each card"]} if size and claim.ask.memory_milli else {}
    return resolved | ({"not_kept": list(found.left_out)} if found.left_out else {})


def _explained(told: dict[str, Any]) -> list[str]:
    """One pod's normal form for people."""
    role = f"/{told['role']}" if "role" in told else ""
    pods = many(told["replicas"], "pod") if told["replicas"] is not None else "a pod on each node"
    lines = [f"{told['file']}:{told['line']}  {told['kind']} {told['name']}{role}  ({pods})"]
    for one in told["containers"]:
        kind = "" if one["kind"] == "app" else f" ({one['kind']})"
        lines.append(f"  {one['container']}{kind}: {one['share']}, {one['sharing']}{_besides(one)}")
        lines += _sentences(one, "    ")
    if "pod" in told:
        lines.append(f"  the pod: {_pod_words(told['pod'])}")
    return [clean(line) for line in lines + _sentences(told, "  ")]


_TITLES = (
    ("rules", "rule"),
    ("guesses", "guess"),
    ("notes", "note"),
    ("resolved", "so"),
    ("not_kept", "not kept"),
    ("unread", "warning"),
)


def _sentences(told: dict[str, Any], indent: str) -> list[str]:
    return [f"{indent}{title:<9}{text}" for key, title in _TITLES for text in told.get(key, ())]


def _besides(one: dict[str, Any]) -> str:
    words = [f"never above {one['cap_milli'] / 10:g} %"] if "cap_milli" in one else []
    words += [f"{one['urgency']} on its card"] if "urgency" in one else []
    words += [f"of {one['vendor']}"] if one["vendor"] != "nvidia" else []
    titles = (("models", ""), ("not_models", "not "), ("uuids", ""), ("not_uuids", "not "))
    select = one.get("select", {})
    words += [f"{what}{' or '.join(select[key])}" for key, what in titles if key in select]
    return "".join(f", {word}" for word in words)


def _size_words(gang: dict[str, Any]) -> str:
    return f"all {gang['size']} start together" if "size" in gang else "its size is not said"


def _pod_words(pod: dict[str, Any]) -> str:
    words = [f"queue {pod['queue']}"] if "queue" in pod else []
    if "gang" in pod:
        gang = pod["gang"]
        numbers = f"at least {gang['minimum']} start together" if "minimum" in gang else _size_words(gang)
        words.append(f"gang {gang['name']} ({numbers})")
    within = pod.get("within", {})
    words += [f"within one {within['required']}"] if "required" in within else []
    words += [f"within one {within['preferred']} if possible"] if "preferred" in within else []
    words += [f"priority class {pod['priority']}"] if "priority" in pod else []
    words += ["may be preempted" if pod["preemptible"] else "is not preempted"] if "preemptible" in pod else []
    return ", ".join(words)


def _written(file: str, understood: list[tuple[Document, list[Understood]]]) -> None:
    """The manifests in our words, to be applied; how many guesses are in them goes to stderr."""
    import yaml

    from gpupool.dialects.documents import rewritten

    new = [rewritten(document.value, found) for document, found in understood]
    yaml.safe_dump_all(new, sys.stdout, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120)
    claims = [one.claim for _, found in understood for one in found]
    asking = [container for claim in claims for container in claim.containers]
    guesses = sum(len(claim.guesses) for claim in claims) + sum(len(one.ask.guesses) for one in asking)
    warnings = [text for claim in claims for text in claim.unread]
    for text in dict.fromkeys(warnings):
        say(f"warning: {clean(text)}")
    if not asking and not warnings:
        say(f"nothing in {file} asks for a card: it is printed as it is")
    elif guesses:
        noun = "1 guess" if guesses == 1 else f"{guesses} guesses"
        say(f"{noun} in this: gpupool import {shlex.quote(file)} --explain  tells")


def _configuration(options: argparse.Namespace, document: Document, facts: NodeFacts) -> int:
    from gpupool.dialects import dstack

    try:
        job, command = dstack.understand(document.value)
        return _line(options, job, command, facts)
    except GpupoolError as error:
        raise document.placed(error) from None


def _script(options: argparse.Namespace, text: str, marks: set[str], facts: NodeFacts) -> int:
    name = _STDIN_SCRIPT if options.file == "-" else options.file
    try:
        return _line(options, _job(text, marks, facts), ("bash", name), facts)
    except GpupoolError as error:
        at = "".join(f":{number}" for number in error.details.get("path", ())[:1])
        error.message = f"{options.file}{at}: {error.message}"
        raise


def _line(options: argparse.Namespace, job: JobClaim, command: tuple[str, ...], facts: NodeFacts) -> int:
    """The line to type, or what it stands for."""
    from gpupool.dialects import batch

    line, left_out = batch.submit_line(job, command, facts.card_memory)
    told = {"file": options.file, **batch.document(job), "submit": line}
    told |= {"not_kept": list(left_out)} if left_out else {}
    if options.output != "text":
        print_data([told], options.output)
    elif options.explain:
        ask = told["ask"]
        lines = [f"{options.file}: {told['share']}, {ask['sharing']}", *_sentences(ask, "  "), *_sentences(told, "  ")]
        sys.stdout.write("\n".join(map(clean, [*lines, f"  {line}"])) + "\n")
    else:
        sys.stdout.write(line + "\n")
    return 0


def _job(text: str, marks: set[str], facts: NodeFacts) -> JobClaim:
    from gpupool.dialects import lsf, slurm

    return slurm.understand(text, facts) if slurm.MARK in marks else lsf.understand(text)
