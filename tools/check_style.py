"""Check the style that ruff cannot check, and let what is left of it only shrink.

`python tools/check_style.py` compares every module of `src/gpupool` with the counts that
`tools/style_baseline/PACKAGE.toml` allows. A module above its counts fails. A module below them may
shrink its entry: `--shrink` rewrites the files and never raises a count.

A module that is moved, split or merged needs no care: what the other modules of its package have
less than their entries is free for the modules that have no entry.

`--since COMMIT` lists the modules that changed since then and still have an entry: a change to a
module should leave it clean.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "gpupool"
BASELINE = ROOT / "tools" / "style_baseline"
#: Findings of modules that have not changed since; safe to delete.
CACHE = ROOT / ".style_cache.json"

#: Lines of a module; a longer one counts 1 for each `LENGTH_STEP` begun.
LENGTH_LIMIT = 350
LENGTH_STEP = 50
#: Modules of a folder, `__init__` not counted.
FOLDER_LIMIT = 22

RULES = {
    "banned-name": "name a function verb + object, a class or a module by a noun",
    "banned-word": "name the actor by its noun: claim, pod, agent, reader",
    "doubled-class": "a class name is unique in its package",
    "long-folder": f"a folder has at most {FOLDER_LIMIT} modules: split it by subject",
    "nested-comprehension": "write the inner comprehension as a statement or a function",
    "tuple-assignment": "assign unrelated values one a line",
    "no-docstring": "say what the module is responsible for",
    "long-module": f"a module has at most {LENGTH_LIMIT} lines: split it by noun",
}

#: Participles and past tenses that do not end in `ed`, and words that say nothing to a newcomer.
PARTICIPLES = """
    told said asked gave given took taken saw seen heard held kept left went gone came knew known
    meant made found lost sent brought bought sold spent drawn grown thrown chosen broken woken
    written hidden bound wound dealt felt understood withdrawn won born due
"""
METAPHORS = "heir heirs will wills muster crew owed owing means around ahead aside doors"
BANNED_NAMES = frozenset((PARTICIPLES + METAPHORS).split())
#: Words on `ed` that may stand alone; `simulated` is the name of a probe.
WORDS_ON_ED = frozenset(
    ("embed", "exceed", "feed", "need", "proceed", "red", "seed", "shed", "simulated", "speed")
)
#: Words that turn a participle before them into a name of two words: `seen_to`, `let_out`.
PARTICLES = frozenset(
    ("at", "by", "for", "from", "in", "of", "off", "on", "out", "to", "up", "with")
)
BANNED_WORDS = re.compile(
    r"\b(who|whom|whoever|nobody|somebody|anybody|everybody|one's)\b", re.IGNORECASE
)

#: The words of a name in snake or in camel case; `HTTPServer` counts as one, which is harmless.
WORDS_OF_NAME = re.compile(r"[A-Z0-9]+[a-z0-9]*|[a-z0-9]+")

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Finding:
    """One breach of a rule at a line of a module."""

    rule: str
    line: int
    text: str


#: How often each rule is broken, by module or folder below the package, then by rule.
Counts = dict[str, Counter[str]]


def is_banned_name(name: str) -> bool:
    """Whether a name is a participle or a word of the old vocabulary."""
    words = WORDS_OF_NAME.findall(name)
    if len(words) > 1 and words[1] not in PARTICLES:
        return False
    word = words[0].lower()
    if word in BANNED_NAMES:
        return True
    return len(words) == 1 and word.endswith("ed") and word not in WORDS_ON_ED


def find_in_module(path: Path, text: str) -> list[Finding]:
    """Find what a module breaks by itself."""
    tree = ast.parse(text)
    findings = []
    lines = text.count("\n")
    if lines > LENGTH_LIMIT:
        steps = -(-(lines - LENGTH_LIMIT) // LENGTH_STEP)
        findings += [Finding("long-module", lines, f"{lines} lines")] * steps
    if path.name != "__init__.py" and is_banned_name(path.stem):
        findings.append(Finding("banned-name", 1, f"module {path.stem}"))
    if ast.get_docstring(tree, clean=False) is None and tree.body:
        findings.append(Finding("no-docstring", 1, "module without a docstring"))
    for node in ast.walk(tree):
        findings.extend(_find_in_node(node))
    return findings


def _find_in_node(node: ast.AST) -> Iterator[Finding]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if is_banned_name(node.name):
            yield Finding("banned-name", node.lineno, f"function {node.name}")
    elif isinstance(node, ast.ClassDef):
        if is_banned_name(node.name):
            yield Finding("banned-name", node.lineno, f"class {node.name}")
    elif isinstance(node, COMPREHENSIONS):
        if _contains_comprehension(node):
            yield Finding("nested-comprehension", node.lineno, "nested comprehension")
    elif isinstance(node, ast.Assign) and _is_unrelated_tuple(node):
        yield Finding("tuple-assignment", node.lineno, "tuple assignment")
    if isinstance(node, DOCUMENTED):
        yield from _find_in_docstrings(node)


def _contains_comprehension(node: ast.AST) -> bool:
    inner = (child for child in ast.walk(node) if child is not node)
    return any(isinstance(child, COMPREHENSIONS) for child in inner)


def _is_unrelated_tuple(node: ast.Assign) -> bool:
    """Whether a tuple is assigned to a tuple and no value reads a target, as a swap does."""
    target = node.targets[0]
    value = node.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return False
    if len(node.targets) > 1 or any(isinstance(part, ast.Starred) for part in value.elts):
        return False
    targets = {ast.unparse(part) for part in target.elts}
    read = (ast.unparse(part) for part in ast.walk(value) if isinstance(part, ast.expr))
    return targets.isdisjoint(read)


def _find_in_docstrings(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[Finding]:
    """Find banned words in the docstring and in the strings under attributes."""
    for statement in node.body:
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
            continue
        text = statement.value.value
        if isinstance(text, str):
            for match in BANNED_WORDS.finditer(text):
                line = statement.lineno + text.count("\n", 0, match.start())
                yield Finding("banned-word", line, f'"{match.group()}" in a docstring')


def find_doubled_classes(classes: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Finding]]:
    """Find the class names that a package defines in more than one module.

    Args:
        classes: the modules by the class name that they define.
    """
    for name, modules in sorted(classes.items()):
        for module in modules[1:]:
            text = f"class {name}, also in {modules[0]}"
            yield module, Finding("doubled-class", 1, text)


class FindingsCache:
    """Findings and class names of modules by path; kept in a file from run to run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rules = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        self._known: dict[str, list[Any]] = {}
        self._used: dict[str, list[Any]] = {}
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        if stored.get("rules") == self._rules:
            self._known = stored["modules"]

    def read(self, path: Path) -> tuple[list[Finding], list[str]]:
        """Return the findings of a module and the names of its classes."""
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        entry = self._known.get(str(path))
        if entry is None or entry[0] != digest:
            text = content.decode()
            findings = [[one.rule, one.line, one.text] for one in find_in_module(path, text)]
            classes = [one.name for one in ast.parse(text).body if isinstance(one, ast.ClassDef)]
            entry = [digest, findings, classes]
        self._used[str(path)] = entry
        return [Finding(*one) for one in entry[1]], list(entry[2])

    def write(self) -> None:
        """Write what this run read; a cache that cannot be written is only slower."""
        text = json.dumps({"rules": self._rules, "modules": self._used})
        try:
            self._path.write_text(text, encoding="utf-8")
        except OSError as error:
            print(f"check_style: no cache: {error}", file=sys.stderr)


def find_in_package(package: Path, cache: FindingsCache) -> dict[str, list[Finding]]:
    """Find what a package breaks, by module; what a folder breaks is under its path with a `/`."""
    found: dict[str, list[Finding]] = defaultdict(list)
    classes: dict[str, list[str]] = defaultdict(list)
    folders: Counter[str] = Counter()
    for path in sorted(package.rglob("*.py")):
        if "migrations" in path.parts:
            continue
        module = path.relative_to(package).as_posix()
        findings, names = cache.read(path)
        found[module] += findings
        for name in names:
            classes[name].append(module)
        if path.name != "__init__.py":
            folders[path.parent.relative_to(package).as_posix() + "/"] += 1
    for module, finding in find_doubled_classes(classes):
        found[module].append(finding)
    for folder, modules in folders.items():
        excess = max(0, modules - FOLDER_LIMIT)
        found[folder] += [Finding("long-folder", 1, f"{modules} modules")] * excess
    return found


def count_findings(found: Mapping[str, Iterable[Finding]]) -> Counts:
    """Count findings by module and rule, without zeros."""
    counts = {module: Counter(one.rule for one in findings) for module, findings in found.items()}
    return {module: rules for module, rules in counts.items() if rules}


def find_excess(counts: Counts, allowed: Counts) -> dict[str, set[str]]:
    """Return the rules that a module breaks more often than its entry allows, by module.

    A module without an entry may use what the others have less than their entries.
    """
    spare: Counter[str] = Counter()
    for module, entry in allowed.items():
        spare += entry - counts.get(module, Counter())
    excess: dict[str, set[str]] = defaultdict(set)
    for module, rules in sorted(counts.items()):
        beyond = rules - allowed.get(module, Counter())
        for rule, count in beyond.items():
            if module not in allowed and count <= spare[rule]:
                spare[rule] -= count
            else:
                excess[module].add(rule)
    return dict(excess)


def read_baseline(path: Path) -> Counts:
    """Read the allowed counts of a package; none where it has no file."""
    if not path.exists():
        return {}
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    return {module: Counter(rules) for module, rules in entries.items()}


def write_baseline(path: Path, counts: Counts) -> None:
    """Write the allowed counts of a package; without any the file goes."""
    if not counts:
        path.unlink(missing_ok=True)
        return
    blocks = ["# Written by `tools/check_style.py --shrink`. Counts only fall.\n"]
    for module, rules in sorted(counts.items()):
        lines = [f"{rule} = {count}\n" for rule, count in sorted(rules.items())]
        blocks.append(f'\n["{module}"]\n' + "".join(lines))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(blocks), encoding="utf-8")


def print_excess(
    package: Path,
    found: Mapping[str, Sequence[Finding]],
    allowed: Counts,
    excess: Mapping[str, set[str]],
) -> None:
    """Print each finding of the modules and rules that are above their entries."""
    for module, rules in excess.items():
        for rule in sorted(rules):
            findings = [one for one in found[module] if one.rule == rule]
            limit = allowed.get(module, Counter())[rule]
            name = f"src/gpupool/{package.name}/{module}"
            print(f"{name}: {rule}: {len(findings)}, allowed {limit}: {RULES[rule]}")
            for one in findings:
                print(f"  {name}:{one.line}: {one.text}")


def list_uncleaned(commit: str) -> list[str]:
    """Return the modules that changed since a commit and still have an entry."""
    command = ["git", "diff", "--name-only", "--diff-filter=d", f"{commit}...", "--", str(SOURCE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    uncleaned = []
    for line in done.stdout.splitlines():
        module = (ROOT / line).relative_to(SOURCE)
        entries = read_baseline(BASELINE / f"{module.parts[0]}.toml")
        if Path(*module.parts[1:]).as_posix() in entries:
            uncleaned.append(line)
    return uncleaned


def list_packages(source: Path) -> list[Path]:
    """Return the folders of the packages that are checked, each with a baseline of its own."""
    return sorted(path.parent for path in source.glob("*/__init__.py"))


def check_packages(packages: Sequence[Path], cache: FindingsCache, *, shrink: bool) -> int:
    """Compare packages with their baselines; return 1 if a module is above its entry."""
    failed = False
    shrinkable = 0
    for package in packages:
        found = find_in_package(package, cache)
        counts = count_findings(found)
        path = BASELINE / f"{package.name}.toml"
        allowed = read_baseline(path)
        excess = find_excess(counts, allowed)
        if excess:
            failed = True
            print_excess(package, found, allowed, excess)
        elif shrink and counts != allowed:
            write_baseline(path, counts)
        else:
            left = allowed.items()
            shrinkable += sum(entry != counts.get(module) for module, entry in left)
    if shrinkable:
        print(f"check_style: {shrinkable} entries can shrink: tools/check_style.py --shrink")
    return int(failed)


def main(words: Sequence[str]) -> int:
    """Check, or shrink the baseline; 1 if a module is above its entry."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", help="packages of gpupool (all)")
    parser.add_argument("--shrink", action="store_true", help="lower the baseline to what is left")
    parser.add_argument("--list", action="store_true", help="print every finding; fail on none")
    parser.add_argument("--since", metavar="COMMIT", help="list changed modules with an entry")
    options = parser.parse_args(words)
    if options.since:
        uncleaned = list_uncleaned(options.since)
        print(*uncleaned, sep="\n", end="\n" if uncleaned else "")
        return int(bool(uncleaned))
    packages = [
        path
        for path in list_packages(SOURCE)
        if not options.packages or path.name in options.packages
    ]
    cache = FindingsCache(CACHE)
    if options.list:
        for package in packages:
            found = find_in_package(package, cache)
            everything = {module: {one.rule for one in all_} for module, all_ in found.items()}
            print_excess(package, found, {}, everything)
        return 0
    status = check_packages(packages, cache, shrink=options.shrink)
    if not options.packages:
        cache.write()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
