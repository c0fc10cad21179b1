"""The rules of the house: who may import whom, where Spark is spoken to, how long a file may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "belvedere"

# A module imports from its own layer and those before it.
LAYERS = (
    "errors",
    "reasons",
    "listing",
    "progress",
    "kernels",
    "algebra",
    "analyses",
    "rules",
    "sql",
    "memory",
    "lake",
    "views",
    "derived",
    "cleaning",
    "sketches",
    "synopses",
    "scheduling",
    "updating",
    "kinds",
    "view_statements",
    "connection",
    "demo",
    "prompt",
    "commands",
    "cli",
)
LONGEST = 600

SOURCES = sorted(SRC.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def layer(module: str) -> str:
    """The layer of a dotted module: `belvedere.sql.cursor` is in `sql`."""
    return [*module.split("."), ""][1]


def package(path: Path) -> list[str]:
    """The dotted package a file is in, for its relative imports."""
    return ["belvedere", *path.relative_to(SRC).parent.parts]


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def statements(tree: ast.AST, *, typing: bool) -> Iterator[ast.AST]:
    """Every statement below; those under `if TYPE_CHECKING` only where `typing`."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.expr):
            continue
        if is_type_checking(child) and not typing:
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield from (other, *statements(other, typing=typing))
        else:
            yield child
            yield from statements(child, typing=typing)


def imports(path: Path, text: str, *, typing: bool) -> Iterator[str]:
    """The absolute names of what a file imports, `from a import b` as `a.b`."""
    for node in statements(parsed(text), typing=typing):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package(path)[: len(package(path)) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{prefix}.{alias.name}" for alias in node.names)


def wrong_direction(path: Path, text: str) -> list[str]:
    """What a file imports from layers after its own, or from none that is known."""
    own = LAYERS.index(path.relative_to(SRC).with_suffix("").parts[0])
    ours = [name for name in imports(path, text, typing=True) if name.split(".")[0] == "belvedere"]
    return [name for name in ours if layer(name) not in LAYERS[: own + 1]]


def imports_pyspark(path: Path, text: str) -> bool:
    return any(
        name.split(".")[0] in {"pyspark", "delta"} for name in imports(path, text, typing=False)
    )


def without(*names: str) -> list[Path]:
    return [path for path in SOURCES if relative(path) not in names]


def test_every_module_belongs_to_a_layer() -> None:
    known = {*LAYERS, "__init__", "__main__"}
    tops = {relative(p): p.relative_to(SRC).with_suffix("").parts[0] for p in SOURCES}
    assert {path: top for path, top in tops.items() if top not in known} == {}


def test_a_module_imports_only_from_layers_before_it() -> None:
    layered = without(
        "src/belvedere/__init__.py", "src/belvedere/__main__.py", "src/belvedere/cli.py"
    )
    found = {relative(path): wrong_direction(path, path.read_text()) for path in layered}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


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


def test_no_file_is_two_files() -> None:
    lengths = {relative(p): len(p.read_text().splitlines()) for p in (*SOURCES, *TESTS)}
    assert {path: length for path, length in lengths.items() if length > LONGEST} == {}


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
        ("sql/x.py", "from belvedere.lake import session", ["belvedere.lake.session"]),
        ("sql/x.py", "import belvedere.lake.session", ["belvedere.lake.session"]),
        ("sql/x.py", "from ..lake import session", ["belvedere.lake.session"]),
        ("sql/x.py", "from belvedere import lake", ["belvedere.lake"]),
        ("sql/x.py", "def f():\n    import belvedere.views", ["belvedere.views"]),
        ("sql/x.py", "if TYPE_CHECKING:\n    import belvedere.views", ["belvedere.views"]),
        ("sql/x.py", "from belvedere import connect", ["belvedere.connect"]),
        ("errors.py", "import belvedere.algebra", ["belvedere.algebra"]),
        ("connection.py", "import belvedere.cli", ["belvedere.cli"]),
        ("connection.py", "import belvedere.lake", []),
        ("sql/x.py", "from . import y\nfrom .y import z\nfrom ..rules import delta", []),
        ("sql/x.py", "from belvedere.errors import Invalid\nimport sqlglot", []),
    ],
)
def test_an_import_from_a_later_layer_is_noticed(module: str, text: str, wrong: list[str]) -> None:
    assert wrong_direction(SRC / module, text) == wrong


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import pyspark", True),
        ("from pyspark.sql import functions", True),
        ("def f():\n    from delta import tables", True),
        ("import deltalake", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyspark", False),
        ("if TYPE_CHECKING:\n    x = 1\nelse:\n    import pyspark", True),
    ],
)
def test_an_import_of_pyspark_is_noticed(text: str, found: bool) -> None:
    assert imports_pyspark(SRC / "views" / "x.py", text) is found
