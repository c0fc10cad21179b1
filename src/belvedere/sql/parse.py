"""Parse: one SELECT from text, or an error with the place of the mistake."""

from __future__ import annotations

import logging
import re

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from belvedere.errors import Invalid, Unsupported
from belvedere.sql.dialect import parse_tokens
from belvedere.sql.places import at_offset, place
from belvedere.sql.statements.cursor import tokenize, without_comments

logging.getLogger("sqlglot").setLevel(logging.ERROR)


def parse_query(text: str) -> exp.Query:
    """The syntax tree of the one query in the text."""
    # The parser moves pipe operators past each other (WHERE before LIMIT), and drops DISTINCT.
    if pipe := _unread(text, _UNREAD[:1]):
        raise pipe
    parsed = parse_statements(text)
    if not parsed:
        raise Invalid(
            "there is no query in the text", hint="a view is defined by a SELECT", reason="SYNTAX"
        )
    if len(parsed) > 1:
        raise Invalid(
            f"the text has {len(parsed)} statements, a view is defined by one",
            hint="remove everything after the first ';'",
            reason="SYNTAX",
        )
    if isinstance(parsed[0], exp.Values):
        raise Unsupported(
            "VALUES as a query is not supported (line 1, column 1)",
            hint="insert the rows into a table",
            reason="VALUES",
        )
    _refuse_unread(text, parsed[0])
    if not isinstance(parsed[0], exp.Query) or isinstance(parsed[0], exp.Table):
        raise Invalid(
            "the text is not a SELECT",
            detail=f"it reads: {text.strip()[:60]}",
            hint="a view is defined by SELECT …, WITH … SELECT … or a set operation of these",
            reason="SYNTAX",
        )
    return parsed[0]


def parse_statements(text: str) -> list[exp.Expr]:
    """The syntax trees of the statements in the text."""
    try:
        parsed = parse_tokens(without_comments(text))
    except ParseError as e:
        raise _unread(text) or _syntax(text, e) from None
    except TokenError as e:
        raise _unfinished(text, e) from None
    return [s for s in parsed if s is not None]


_UNREAD = (
    ("|>", "a pipe", "write it as one SELECT, with subqueries where it needs them", "PIPE"),
    (
        "TABLESAMPLE",
        "TABLESAMPLE",
        "create a sample with CREATE SAMPLE, or filter by pmod(hash(key), 100) < 10",
        "TABLESAMPLE",
    ),
    (">>>", "the operator >>>", "write shiftrightunsigned(a, n)", "OPERATOR"),
)


def _unread(
    text: str, constructs: tuple[tuple[str, str, str, str], ...] = _UNREAD
) -> Unsupported | None:
    """The error for a construct of Spark's that the parser does not read."""
    tokens, _ = tokenize(text)
    words = [text[t.start : t.end + 1].upper() for t in tokens]
    for written, what, hint, code in constructs:
        parts = list(written) if written == ">>>" else [written]
        for i, token in enumerate(tokens):
            if words[i : i + len(parts)] == parts:
                where = at_offset(text, token.start)
                return Unsupported(f"{what} is not supported ({where})", hint=hint, reason=code)
    return None


_ALL_QUERIES = "kind exclude pivots prewhere locks sample settings format options for_"
_NOT_READ: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Select: (*_ALL_QUERIES.split(), "operation_modifiers"),
    exp.SetOperation: (*_ALL_QUERIES.split(), "match", "connect", "laterals"),
    exp.Table: tuple(
        "hints system_time format pattern ordinality only partition changes rows_from indexed".split()
    ),
    exp.Join: ("global_", "match_condition", "nearest", "directed"),
    exp.Group: ("totals",),
    exp.WindowSpec: ("exclude",),
    exp.Ordered: ("with_fill",),
    exp.Star: ("ilike",),
    exp.CTE: ("key_expressions", "scalar"),
    exp.With: ("search", "cycle", "udfs"),
    exp.Limit: ("limit_options", "expressions"),
    exp.In: ("unnest", "field", "is_global"),
}
"""What the parser may find that nothing here reads: a clause is never left out of a query's meaning."""
_CODES = {"pivots": "PIVOT", "sample": "TABLESAMPLE"}


def _refuse_unread(text: str, tree: exp.Expr) -> None:
    for node in tree.walk():
        for kind, keys in _NOT_READ.items():
            if not isinstance(node, kind):
                continue
            key = next((k for k in keys if node.args.get(k)), None)
            if key is not None:
                raise Unsupported(
                    f"{_CODES.get(key, key.strip('_').upper())} is not supported here ({place(text, node)})",
                    hint="write the query without this clause",
                    reason=_CODES.get(key, "OTHER_QUERY"),
                )


def _unfinished(text: str, error: TokenError) -> Invalid:
    """The error for a string, name or comment that does not end."""
    found = re.fullmatch(r"Missing (.+) from (\d+):(\d+)", str(error.__cause__))
    if found is None:
        lines = text.count("\n") + 1
        return Invalid(
            f"syntax error before the end of line {lines}: a comment does not end", reason="SYNTAX"
        )
    where = f"line {found[2]}, column {int(found[3]) + 1}"
    return Invalid(
        f"syntax error at {where}: what begins here has no closing {found[1]}", reason="SYNTAX"
    )


def _plain(description: str) -> str:
    """A parser's message without the parser's own objects in it."""
    token = re.search(r"<Token token_type: TokenType[.](\w+), text: (.*?), line: ", description)
    if token:
        met = "the text ends" if token[1] == "SENTINEL" else f"there is {token[2]!r}"
        description = description[: token.start()].removesuffix("but got ") + f"but {met}"
    plain = description.split(" for <class")[0].rstrip(". ")
    return "this is not expected here" if plain.startswith("Invalid expression") else plain


def _syntax(text: str, error: ParseError) -> Invalid:
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    what = _plain(str(first.get("description", "not understood")))
    near = str(first.get("highlight") or "")
    before = len(near) - 1 if near else 0
    where = f"line {line}, column {max(1, int(column) - before)}" if line and column else ""
    return Invalid(
        f"syntax error at {where or 'an unknown place'}: {what[:1].lower()}{what[1:]}",
        detail=f"near {near!r}" if near else f"in {text.strip()[:60]!r}",
        hint="the text is read as Spark SQL",
        reason="SYNTAX",
    )
