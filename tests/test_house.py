"""The rules of the house: who may import whom, where Spark is used, how large a file may be."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.name_exceptions import REFUSED_NAMES, SHARED_CLASS_NAMES

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "belvedere"

# A module imports from its own layer and the layers before it.
LAYERS = (
    "errors",
    "reasons",
    "listing",
    "kernels",
    "algebra",
    "analyses",
    "rules",
    "sql",
    "memory",
    "storage",
    "delta",
    "lake",
    "estimation",
    "joins",
    "execution",
    "derivations",
    "views",
    "samples",
    "sketches",
    "synopses",
    "updating",
    "scheduling",
    "kinds",
    "view_statements",
    "api",
    "cli",
)
# Kinds of derivations do not import each other, except that these may use views.
KINDS = {"views", "samples", "sketches", "synopses", "updating"}
MAY_USE_VIEWS = {"samples", "updating"}

MAX_LINES = 450
MAX_FILES = 20
MAX_IMPORTS = 20
FACADES = {"api.py", "cli/main.py"}
"""Modules that bring everything together, and may import more than others."""

# Violations that remain. These lists only shrink: a test fails if an entry no longer applies.
WRONG_DIRECTION: dict[str, set[str]] = {
    "derivations/calls.py": {"views.catalog", "views.definition", "views.kind"},
    "derivations/guard.py": {"views.catalog"},
    "derivations/status.py": {"views.catalog", "views.definition"},
}
OTHER_KINDS: dict[str, set[str]] = {
    "sketches/kind.py": {"views.catalog"},
    "sketches/live.py": {"views.catalog"},
    "sketches/safety/planning.py": {"views.catalog", "views.create"},
    "sketches/service.py": {"views.catalog"},
    "sketches/use/answers.py": {"views.catalog"},
    "sketches/use/auto.py": {"views.catalog"},
    "sketches/use/explain.py": {"views.catalog"},
    "sketches/use/queries.py": {"views.catalog"},
    "sketches/use/rewrite.py": {"views.catalog"},
    "synopses/definition.py": {"views.catalog", "views.definition"},
    "synopses/kind.py": {"views.catalog"},
}
TOO_MANY_IMPORTS: set[str] = {
    "sketches/safety/planning.py",
    "sketches/service.py",
    "sketches/upkeep.py",
    "synopses/kind.py",
    "updating/kind.py",
    "views/create.py",
    "views/kind.py",
}
TOO_LONG: set[str] = {
    "src/belvedere/api.py",
}
TOO_FULL: set[str] = set()

# Words that say nothing to a reader who does not see the caller: everyday verbs and participles.
REFUSED_WORDS = frozenset(
    "amounts asked bring bringing brought do foremost found handle held keeper kept known left "
    "looked made moving near puts quick shelf shown spoken spreading staying taken telling thing "
    "things told trying turned work".split()
)

SOURCES = sorted(SRC.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def within(path: Path) -> str:
    """The path of a source file inside the package: `views/refresh.py`."""
    return path.relative_to(SRC).as_posix()


def layer(module: str) -> str:
    """The layer of a dotted module: `belvedere.sql.names` is in `sql`."""
    return [*module.split("."), ""][1]


def layer_of(path: Path) -> str:
    return path.relative_to(SRC).with_suffix("").parts[0]


def package(path: Path) -> list[str]:
    """The dotted package of a file, for its relative imports."""
    return ["belvedere", *path.relative_to(SRC).parent.parts]


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def statements(tree: ast.AST, *, typing: bool) -> Iterator[ast.stmt]:
    """Every statement below; those under `if TYPE_CHECKING` only where `typing`."""
    waiting = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.expr):
                continue
            if is_type_checking(child) and not typing:
                assert isinstance(child, ast.If)
                waiting.append(ast.Module(child.orelse, []))
                continue
            if isinstance(child, ast.stmt):
                yield child
            waiting.append(child)


@cache
def imports(path: Path, text: str, *, typing: bool) -> tuple[str, ...]:
    """The absolute names of what a file imports, `from a import b` as `a.b`."""
    names: list[str] = []
    for node in statements(parsed(text), typing=typing):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package(path)[: len(package(path)) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            names += (f"{prefix}.{alias.name}" for alias in node.names)
    return tuple(names)


@cache
def module_of(name: str) -> str:
    """The module that an imported name is, or is in, without `belvedere.`."""
    parts = name.split(".")[1:]
    while parts and not (
        SRC.joinpath(*parts).with_suffix(".py").exists() or SRC.joinpath(*parts).is_dir()
    ):
        parts.pop()
    return ".".join(parts)


def own_imports(path: Path, text: str) -> list[str]:
    """The names that a file imports from this package."""
    return [n for n in imports(path, text, typing=True) if n.split(".")[0] == "belvedere"]


def wrong_direction(path: Path, text: str) -> list[str]:
    """What a file imports from layers after its own, or from no known layer."""
    allowed = LAYERS[: LAYERS.index(layer_of(path)) + 1]
    return [name for name in own_imports(path, text) if layer(name) not in allowed]


def from_other_kinds(path: Path, text: str) -> list[str]:
    """What the module of one kind of derivation imports from another kind."""
    own = layer_of(path)
    if own not in KINDS:
        return []
    allowed = {own, "views"} if own in MAY_USE_VIEWS else {own}
    return [n for n in own_imports(path, text) if layer(n) in KINDS - allowed]


def imports_pyspark(path: Path, text: str) -> bool:
    return any(
        name.split(".")[0] in {"pyspark", "delta"} for name in imports(path, text, typing=False)
    )


def layered() -> list[Path]:
    return [p for p in SOURCES if within(p) not in {"__init__.py", "__main__.py", "cli/main.py"}]


def modules(names: Mapping[str, list[str]]) -> dict[str, set[str]]:
    return {path: {module_of(n) for n in some} for path, some in names.items() if some}


def test_every_module_belongs_to_a_layer() -> None:
    known = {*LAYERS, "__init__", "__main__"}
    assert {within(p): layer_of(p) for p in SOURCES if layer_of(p) not in known} == {}


def test_a_module_imports_only_from_layers_before_it() -> None:
    wrong = {within(p): wrong_direction(p, p.read_text()) for p in layered()}
    assert modules(wrong) == WRONG_DIRECTION


def test_kinds_of_derivations_do_not_import_each_other() -> None:
    wrong = {within(p): from_other_kinds(p, p.read_text()) for p in layered()}
    assert modules(wrong) == OTHER_KINDS


def test_a_module_imports_a_bounded_number_of_others() -> None:
    counts = {
        within(p): len({module_of(n) for n in own_imports(p, p.read_text())}) for p in SOURCES
    }
    assert {p for p, n in counts.items() if n > MAX_IMPORTS} - FACADES == TOO_MANY_IMPORTS


JVM_INTERNALS = {"_jvm", "_jsparkSession", "_jsc", "_jdf"}


def uses_jvm_internals(text: str) -> bool:
    if not any(name in text for name in JVM_INTERNALS):
        return False
    tree = parsed(text)
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return bool((attributes | strings) & JVM_INTERNALS)


def test_no_jvm_internals() -> None:
    assert uses_jvm_internals("spark._jvm.x")
    assert uses_jvm_internals("getattr(spark, '_jsc')")
    assert [relative(path) for path in SOURCES if uses_jvm_internals(path.read_text())] == []


def test_only_the_lake_imports_pyspark() -> None:
    others = [path for path in SOURCES if SRC / "lake" not in path.parents]
    assert others
    assert [relative(path) for path in others if imports_pyspark(path, path.read_text())] == []


FILE_MODULES = {"os", "pathlib", "shutil", "glob", "tempfile", "mmap"}
STORE_KINDS = {"LocalStore", "UnreachableStore", "local_path", "cloneSession"}
"""Names by which a module learns where bytes or Spark are."""
MAY_ASK_WHERE_BYTES_ARE = {"lake/capabilities.py", "lake/tables/remote.py"}
"""Beside the packages storage and lake/sessions; `remote` gives a table the store that it has."""


def opens_files(path: Path, text: str) -> bool:
    """Whether a source uses files by itself, not through a store."""
    names = {name.split(".")[0] for name in imports(path, text, typing=True)}
    calls = (node.func for node in ast.walk(parsed(text)) if isinstance(node, ast.Call))
    return bool(names & FILE_MODULES) or any(
        isinstance(call, ast.Name) and call.id == "open" for call in calls
    )


def asks_where_bytes_are(text: str) -> bool:
    """Whether a source names a kind of store, or tries what a lake or a session has."""
    names, probes = set[str](), set[object]()
    for node in ast.walk(parsed(text)):
        match node:
            case ast.Attribute(ast.Attribute(attr="store") | ast.Name("store"), "reachable"):
                probes.add(node)
            case ast.Name(name) | ast.Attribute(attr=name) | ast.alias(name=name):
                names.add(name)
            case ast.Call(ast.Name("hasattr" | "getattr"), [ast.Name("lake"), *_]):
                probes.add(node)
            case ast.Call(ast.Name("hasattr" | "getattr"), [ast.Attribute(attr="_lake"), *_]):
                probes.add(node)
            case ast.Constant(str(text)):
                names |= {text} & STORE_KINDS
            case _:
                pass
    return bool(names & STORE_KINDS or probes)


def test_delta_reads_and_writes_through_a_store() -> None:
    path = SRC / "delta" / "log.py"
    for text in ("import os", "from pathlib import Path", "def f():\n    open('x')"):
        assert opens_files(path, text), text
    assert not opens_files(path, "store.open('x')")
    assert [within(p) for p in SOURCES if layer_of(p) == "delta" and opens_files(p, p.read_text())] == []  # fmt: skip


def test_one_module_asks_where_bytes_and_spark_are() -> None:
    for text in (
        "from belvedere.storage.local import LocalStore",
        "table.store.reachable",
        "hasattr(lake, 'spark')",
        "getattr(self._lake, 'work', None)",
        "hasattr(spark, 'cloneSession')",
    ):
        assert asks_where_bytes_are(text), text
    assert not asks_where_bytes_are("spark_lake(lake)")
    asking = {within(p) for p in SOURCES if asks_where_bytes_are(p.read_text())}
    there = {p for p in asking if not p.startswith(("storage/", "lake/sessions/"))}
    assert there == MAY_ASK_WHERE_BYTES_ARE


def test_a_file_has_a_bounded_number_of_lines() -> None:
    lengths = {
        relative(p): len(p.read_text().splitlines()) for p in (*SOURCES, *TESTS, *BENCHMARKS)
    }
    assert {path for path, length in lengths.items() if length > MAX_LINES} == TOO_LONG


def test_a_folder_has_a_bounded_number_of_files() -> None:
    counts = Counter(relative(p.parent) for p in (*SOURCES, *TESTS, *BENCHMARKS))
    assert {folder for folder, count in counts.items() if count > MAX_FILES} == TOO_FULL


def class_names(text: str) -> list[str]:
    """The names of the classes of a source, also of those inside functions and classes."""
    return [node.name for node in ast.walk(parsed(text)) if isinstance(node, ast.ClassDef)]


def shared_class_names() -> dict[str, int]:
    """The names of several classes, and how many classes have each."""
    counts = Counter(name for p in SOURCES for name in class_names(p.read_text()))
    return {name: count for name, count in counts.items() if count > 1}


def public_functions(tree: ast.AST) -> Iterator[str]:
    """The names of the public functions of a module and of the public methods of its classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("_"):
                yield node.name
        elif not isinstance(node, ast.expr):
            yield from public_functions(node)


def refused_names(module: str, text: str) -> set[str]:
    """The names of a module, its classes and its public functions that are refused words."""
    names = {module, *class_names(text), *public_functions(parsed(text))}
    return {name for name in names if name.strip("_").lower() in REFUSED_WORDS}


def files_with_refused_names() -> dict[str, set[str]]:
    names = {within(p): refused_names(p.stem, p.read_text()) for p in SOURCES}
    return {path: some for path, some in names.items() if some}


def test_no_two_classes_have_one_name() -> None:
    assert class_names("class A:\n    class B: ...\n\ndef f():\n    class C: ...") == [*"ABC"]
    assert shared_class_names() == SHARED_CLASS_NAMES


def test_names_are_not_everyday_words() -> None:
    text = "class _Found:\n    def told(self): ...\n\ndef _made():\n    def left(): ..."
    assert refused_names("near", text) == {"near", "_Found", "told"}
    assert refused_names("nearest", "taken = asked") == set()
    assert files_with_refused_names() == REFUSED_NAMES


def test_the_lock_pins_by_hash_and_holds_no_address() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [i for i, line in enumerate(lines) if line and not line.startswith((" ", "#"))]
    assert pins
    assert [lines[i] for i in pins if "==" not in lines[i]] == []
    assert [lines[i] for i in pins if "--hash=sha256:" not in lines[i + 1]] == []
    assert [line for line in lines if "://" in line or "index-url" in line] == []


@pytest.mark.parametrize(
    ("module", "text", "wrong"),
    [
        ("sql/x.py", "from belvedere.lake import pins", ["belvedere.lake.pins"]),
        ("sql/x.py", "import belvedere.lake.pins", ["belvedere.lake.pins"]),
        ("sql/x.py", "from ..lake import pins", ["belvedere.lake.pins"]),
        ("sql/x.py", "from belvedere import lake", ["belvedere.lake"]),
        ("sql/x.py", "def f():\n    import belvedere.views", ["belvedere.views"]),
        ("sql/x.py", "if TYPE_CHECKING:\n    import belvedere.views", ["belvedere.views"]),
        ("sql/x.py", "from belvedere import connect", ["belvedere.connect"]),
        ("errors.py", "import belvedere.algebra", ["belvedere.algebra"]),
        ("api.py", "import belvedere.cli", ["belvedere.cli"]),
        ("api.py", "import belvedere.lake", []),
        ("sql/x.py", "from . import y\nfrom .y import z\nfrom ..rules import delta", []),
        ("sql/x.py", "from belvedere.errors import Invalid\nimport sqlglot", []),
    ],
)
def test_an_import_from_a_later_layer_is_noticed(module: str, text: str, wrong: list[str]) -> None:
    assert wrong_direction(SRC / module, text) == wrong


@pytest.mark.parametrize(
    ("module", "text", "wrong"),
    [
        ("sketches/x.py", "from belvedere.views import create", ["belvedere.views.create"]),
        ("updating/x.py", "from belvedere.views import create", []),
        ("updating/x.py", "import belvedere.sketches.kind", ["belvedere.sketches.kind"]),
        ("api.py", "import belvedere.sketches.kind", []),
    ],
)
def test_an_import_from_another_kind_is_noticed(module: str, text: str, wrong: list[str]) -> None:
    assert from_other_kinds(SRC / module, text) == wrong


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("import pyspark", True),
        ("from pyspark.sql import functions", True),
        ("def f():\n    from delta import tables", True),
        ("import deltalake", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyspark", False),
        ("if TYPE_CHECKING:\n    x = 1\nelse:\n    import pyspark", True),
    ],
)
def test_an_import_of_pyspark_is_noticed(text: str, imported: bool) -> None:
    assert imports_pyspark(SRC / "views" / "x.py", text) is imported
