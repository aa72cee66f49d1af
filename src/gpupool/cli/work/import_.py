"""`gpupool import`: what manifests and job scripts of other systems mean here.

Needs no pool and no cluster.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import GpupoolError
from gpupool.base.units import format_mib
from gpupool.cli.work.documents.manifests import ManifestDocument, parse_documents, read_text
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import clean_text, count_noun, print_data
from gpupool.terminal.parser import CommandParser, add_output

if TYPE_CHECKING:
    from gpupool.dialects.batch.script import JobClaim
    from gpupool.dialects.facts import NodeFacts
    from gpupool.dialects.manifests.documents import UnderstoodPod
    from gpupool.dialects.manifests.workloads import PodTemplate

FORMATS = ("text", "json", "yaml")
#: The name in the printed line of a script that came from standard input and has none.
_STDIN_SCRIPT = "job.sh"


def register(parser: CommandParser) -> None:
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
    parser.add_argument(
        "--explain",
        action="store_true",
        help="explain what it means, and why, instead of converting it",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse unknown keys with the prefix of a known system",
    )
    parser.add_argument(
        "--node-facts", metavar="FILE", help="facts about the nodes it was written for (YAML)"
    )
    add_output(parser, FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    from gpupool.dialects.batch.dstack import is_configuration

    facts = read_node_facts(options.node_facts)
    text = read_text(options.file)
    # Looked for before YAML is parsed: every script is one long comment to YAML.
    marks = set()
    for line in text.splitlines():
        if line.startswith(("#SBATCH", "#BSUB", "bsub ")):
            marks.add(line.split(maxsplit=1)[0])
    if marks:
        return _import_script(options, text, marks, facts)
    found = parse_documents(options.file, text)
    if len(found) == 1 and is_configuration(found[0].value):
        return _import_configuration(options, found[0], facts)
    understood = _understand_all(found, facts, options.strict)
    forms = []
    if options.output != "text" or options.explain:
        for document, pods in understood:
            forms += _list_normal_forms(document, pods, facts)
    if options.output != "text":
        print_data(forms, options.output)
    elif options.explain:
        blocks = ["\n".join(_explain_pod(form)) for form in forms]
        sys.stdout.write(
            "\n\n".join(blocks or [f"nothing in {options.file} asks for a card"]) + "\n"
        )
    else:
        _print_rewritten(options.file, understood)
    return 0


def read_node_facts(name: str | None) -> NodeFacts:
    """Read facts from a file. Raises BadManifest with the line."""
    from gpupool.dialects.facts import UNKNOWN, read_facts

    if name is None:
        return UNKNOWN
    found = parse_documents(name, read_text(name))
    try:
        return read_facts(found[0].value) if found else UNKNOWN
    except GpupoolError as error:
        raise found[0].locate_error(error) from None


def _understand_all(
    found: list[ManifestDocument], facts: NodeFacts, strict: bool
) -> list[tuple[ManifestDocument, list[UnderstoodPod]]]:
    from gpupool.dialects.manifests.documents import understand_document
    from gpupool.dialects.manifests.dra import ResourceClaims

    claims = ResourceClaims.from_documents(one.value for one in found)
    understood = []
    for document in found:
        try:
            understood.append(
                (document, understand_document(document.value, facts, strict=strict, claims=claims))
            )
        except GpupoolError as error:
            raise document.locate_error(error) from None
    return understood


def _list_normal_forms(
    document: ManifestDocument, understood: list[UnderstoodPod], facts: NodeFacts
) -> list[dict[str, Any]]:
    """List the normal form of every pod that asks for cards, as data."""
    from gpupool.dialects.manifests.normal import build_document as normal_form

    found = []
    for one in understood:
        if not (one.claim.containers or one.claim.notes or one.claim.unread):
            continue
        told: dict[str, Any] = _describe_head(document, one.template) | normal_form(one.claim)
        for container, claim in zip(told["containers"], one.claim.containers, strict=True):
            container |= _describe_scheduling(claim, one.claim.hints, facts)
        found.append(told)
    return found


def _describe_head(document: ManifestDocument, template: PodTemplate) -> dict[str, Any]:
    role = {"role": template.role} if template.role else {}
    where = {"file": document.file, "line": document.find_line(template.path)}
    return where | {
        "kind": template.kind,
        "name": template.name,
        **role,
        "replicas": template.replicas,
    }


def _describe_scheduling(claim: Any, hints: Any, facts: NodeFacts) -> dict[str, Any]:
    """Describe what a claim to the scheduler does not say, and what a part of memory comes to."""
    from gpupool.dialects.shapes import translate_shape

    found = translate_shape(claim, hints, facts.card_memory)
    size = found.shape.memory_bytes
    resolved = (
        {"resolved": [f"{format_mib(size)} on each card"]}
        if size and claim.ask.memory_milli
        else {}
    )
    return resolved | ({"not_kept": list(found.left_out)} if found.left_out else {})


def _explain_pod(told: dict[str, Any]) -> list[str]:
    """Format one pod's normal form for people."""
    role = f"/{told['role']}" if "role" in told else ""
    pods = (
        count_noun(told["replicas"], "pod")
        if told["replicas"] is not None
        else "a pod on each node"
    )
    lines = [f"{told['file']}:{told['line']}  {told['kind']} {told['name']}{role}  ({pods})"]
    for one in told["containers"]:
        kind = "" if one["kind"] == "app" else f" ({one['kind']})"
        lines.append(
            f"  {one['container']}{kind}: {one['share']}, {one['sharing']}{_describe_besides(one)}"
        )
        lines += _list_sentences(one, "    ")
    if "pod" in told:
        lines.append(f"  the pod: {_pod_words(told['pod'])}")
    return [clean_text(line) for line in lines + _list_sentences(told, "  ")]


#: Keys of the normal form whose sentences are printed, with the word before each.
_TITLES = (
    ("rules", "rule"),
    ("guesses", "guess"),
    ("notes", "note"),
    ("resolved", "so"),
    ("not_kept", "not kept"),
    ("unread", "warning"),
)


def _list_sentences(told: dict[str, Any], indent: str) -> list[str]:
    lines = []
    for key, title in _TITLES:
        for text in told.get(key, ()):
            lines.append(f"{indent}{title:<9}{text}")
    return lines


def _describe_besides(one: dict[str, Any]) -> str:
    words = []
    if "cap_milli" in one:
        words.append(f"never above {one['cap_milli'] / 10:g} %")
    if "urgency" in one:
        words.append(f"{one['urgency']} on its card")
    if one["vendor"] != "nvidia":  # what nearly every manifest asks for goes without saying
        words.append(f"of {one['vendor']}")
    titles = (("models", ""), ("not_models", "not "), ("uuids", ""), ("not_uuids", "not "))
    select = one.get("select", {})
    for key, what in titles:
        if key in select:
            words.append(f"{what}{' or '.join(select[key])}")
    return "".join(f", {word}" for word in words)


def _size_words(gang: dict[str, Any]) -> str:
    return f"all {gang['size']} start together" if "size" in gang else "its size is not said"


def _pod_words(pod: dict[str, Any]) -> str:
    words = []
    if "queue" in pod:
        words.append(f"queue {pod['queue']}")
    if "gang" in pod:
        gang = pod["gang"]
        numbers = (
            f"at least {gang['minimum']} start together" if "minimum" in gang else _size_words(gang)
        )
        words.append(f"gang {gang['name']} ({numbers})")
    within = pod.get("within", {})
    if "required" in within:
        words.append(f"within one {within['required']}")
    if "preferred" in within:
        words.append(f"within one {within['preferred']} if possible")
    if "priority" in pod:
        words.append(f"priority class {pod['priority']}")
    if "preemptible" in pod:
        words.append("may be preempted" if pod["preemptible"] else "is not preempted")
    return ", ".join(words)


def _print_rewritten(
    file: str, understood: list[tuple[ManifestDocument, list[UnderstoodPod]]]
) -> None:
    """Print the manifests in our words, to be applied.

    How many guesses are in them goes to stderr, so that a pipe to kubectl has the manifests alone.
    """
    import yaml

    from gpupool.dialects.manifests.documents import rewrite_document

    new = [rewrite_document(document.value, found) for document, found in understood]
    yaml.safe_dump_all(
        new, sys.stdout, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120
    )
    asking = 0
    guesses = 0
    warnings: list[str] = []
    for _, pods in understood:
        for pod in pods:
            asking += len(pod.claim.containers)
            guesses += len(pod.claim.guesses)
            guesses += sum(len(one.ask.guesses) for one in pod.claim.containers)
            warnings += pod.claim.unread
    # The containers of a Deployment repeat the same unknown key: it is said once.
    for text in dict.fromkeys(warnings):
        print_notice(f"warning: {clean_text(text)}")
    if not asking and not warnings:
        print_notice(f"nothing in {file} asks for a card: it is printed as it is")
    elif guesses:
        noun = "1 guess" if guesses == 1 else f"{guesses} guesses"
        print_notice(f"{noun} in this: gpupool import {shlex.quote(file)} --explain  tells")


def _import_configuration(
    options: argparse.Namespace, document: ManifestDocument, facts: NodeFacts
) -> int:
    from gpupool.dialects.batch import dstack

    try:
        job, command = dstack.understand_configuration(document.value)
        return _print_submit_line(options, job, command, facts)
    except GpupoolError as error:
        raise document.locate_error(error) from None


def _import_script(
    options: argparse.Namespace, text: str, marks: set[str], facts: NodeFacts
) -> int:
    name = _STDIN_SCRIPT if options.file == "-" else options.file
    try:
        return _print_submit_line(options, _read_job(text, marks, facts), ("bash", name), facts)
    except GpupoolError as error:
        # Of a script the path is the number of its line.
        at = "".join(f":{number}" for number in error.details.get("path", ())[:1])
        error.message = f"{options.file}{at}: {error.message}"
        raise


def _print_submit_line(
    options: argparse.Namespace, job: JobClaim, command: tuple[str, ...], facts: NodeFacts
) -> int:
    """Print the line to type, or what it stands for."""
    from gpupool.dialects.batch import script

    line, left_out = script.submit_line(job, command, facts.card_memory)
    told = {"file": options.file, **script.build_document(job), "submit": line}
    told |= {"not_kept": list(left_out)} if left_out else {}
    if options.output != "text":
        print_data([told], options.output)
    elif options.explain:
        ask = told["ask"]
        lines = [
            f"{options.file}: {told['share']}, {ask['sharing']}",
            *_list_sentences(ask, "  "),
            *_list_sentences(told, "  "),
        ]
        sys.stdout.write("\n".join(map(clean_text, [*lines, f"  {line}"])) + "\n")
    else:
        sys.stdout.write(line + "\n")
    return 0


def _read_job(text: str, marks: set[str], facts: NodeFacts) -> JobClaim:
    from gpupool.dialects.batch import lsf, slurm

    return (
        slurm.understand_script(text, facts) if slurm.MARK in marks else lsf.understand_script(text)
    )
