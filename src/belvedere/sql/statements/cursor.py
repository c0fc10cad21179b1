"""A cursor over the tokens of one SQL statement, and the names it reads.

Tokens are sqlglot's (Spark dialect), so comments, quoting and case are its business, not ours.
A keyword is compared by its source text, which for a quoted identifier includes the quotes:
`` `as` `` is never the keyword AS.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from belvedere.errors import Invalid

Properties = tuple[tuple[str, str], ...]

STRINGS = {TokenType.STRING, TokenType.RAW_STRING}


class _Tokenizer(Spark.Tokenizer):
    """Spark's tokenizer, which here reads SHOW and EXPLAIN like any other statement."""

    COMMANDS: ClassVar[set[TokenType]] = set()


_LEXEME = re.compile(
    r"""(?<!\w)[rR](?:'[^']*'|"[^"]*")
      | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*`
      | (?P<line>--(?:\\\n|[^\r\n])*)
      | (?P<block>/\*(?!\+))""",
    re.DOTALL | re.VERBOSE,
)
"""What a comment cannot begin in, and comments; a hint, `/*+ … */`, is none."""
_BLOCK_EDGE = re.compile(r"/\*(?!\+)|\*/")


def blank(text: str) -> str:
    r"""Blank space with the line breaks of a text, so that what follows keeps its place.

    >>> blank("CREATE\n  x")
    '      \n   '
    """
    return "".join(c if c == "\n" else " " for c in text)


def without_comments(text: str) -> str:
    r"""The text with blank space for comments, as Spark's lexer finds them.

    sqlglot's tokenizer finds others: in Spark a comment goes on after a line that ends with a
    backslash, and block comments nest.

    >>> without_comments("a -- b \\\n c\nd")
    'a       \n  \nd'
    >>> without_comments("/*/* a */ b */'-- c' /*+ d */")
    "              '-- c' /*+ d */"
    """
    pieces, start, at = list[str](), 0, 0
    while found := _LEXEME.search(text, at):
        at = found.end()
        if found.lastgroup is None:
            continue
        if found["block"]:
            end = _block_end(text, at)
            if end is None:
                # An open comment stays open, whatever is in it.
                return "".join([*pieces, text[start:at], blank(text[at:])])
            at = end
        pieces += [text[start : found.start()], blank(text[found.start() : at])]
        start = at
    return "".join([*pieces, text[start:]])


def _block_end(text: str, at: int) -> int | None:
    """Where a block comment ends that is open at a place; None if it does not."""
    depth = 1
    for edge in _BLOCK_EDGE.finditer(text, at):
        depth += -1 if edge[0] == "*/" else 1
        if depth == 0:
            return edge.end()
    return None


def tokenize(text: str) -> tuple[list[Token], bool]:
    """The tokens of `text`, and whether all of it could be read (else a quote or comment is open)."""
    tokenizer = _Tokenizer(dialect="spark")
    try:
        return tokenizer.tokenize(without_comments(text)), True
    except TokenError:
        return list(tokenizer.tokens), False


def dotted(parts: Iterable[str]) -> str:
    """The canonical text of a name: parts joined by dots, backquoted only where they must be.

    >>> dotted(["shop", "daily visits"])
    'shop.`daily visits`'
    """
    return ".".join(
        part if _is_bare(part) else "`" + part.replace("`", "``") + "`" for part in parts
    )


def _is_bare(part: str) -> bool:
    """Whether a name needs no quotes; Python's identifiers have marks that the tokenizer refuses."""
    return part.isidentifier() and all(c.isalnum() or c == "_" for c in part)


def name_parts(name: str) -> tuple[str, ...]:
    """The parts of a dotted name as written in SQL, without their quotes.

    >>> name_parts("shop.`a``b.c`")
    ('shop', 'a`b.c')
    """
    cursor = Cursor(name)
    parts = cursor.parts("a name")
    cursor.end()
    return parts


def position(text: str, offset: int) -> tuple[int, int]:
    r"""The line and column, both from 1, of a character of `text`.

    >>> position("SELECT\n  x", 9)
    (2, 3)
    """
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")


def nearest(word: str, candidates: Iterable[str]) -> str:
    """The candidate closest to `word`, or "" if none is close.

    >>> nearest("INCREMENTL", ["AUTO", "INCREMENTAL"])
    'INCREMENTAL'
    """
    return next(iter(get_close_matches(word.upper(), list(candidates), n=1, cutoff=0.7)), "")


class Cursor:
    """A position in one statement's tokens, with the few moves a grammar needs.

    >>> c = Cursor("DROP materialized VIEW /* old */ `my view`;")
    >>> c.take("DROP MATERIALIZED VIEW"), c.name(), c.done
    (True, '`my view`', True)
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens, self._readable = tokenize(text)
        self._stop = len(text)
        while self._tokens and self._tokens[-1].token_type == TokenType.SEMICOLON:
            self._stop = self._tokens.pop().start
        self._at = 0

    @property
    def done(self) -> bool:
        """Whether every token was read."""
        return self._at == len(self._tokens)

    @property
    def offset(self) -> int:
        """Where the next token begins in the text."""
        return self._stop if self.done else self._tokens[self._at].start

    def word(self, ahead: int = 0) -> str:
        """The next token as written, in upper case; "" at the end."""
        at = self._at + ahead
        return self._source(self._tokens[at]).upper() if at < len(self._tokens) else ""

    def sees(self, phrase: str) -> bool:
        """Whether the next tokens are these keywords."""
        return all(self.word(i) == word for i, word in enumerate(phrase.split()))

    def take(self, phrase: str) -> bool:
        """Move past these keywords if they come next."""
        if not self.sees(phrase):
            return False
        self._at += len(phrase.split())
        return True

    def expect(self, phrase: str) -> None:
        """Move past these keywords, which must come next."""
        if not self.take(phrase):
            raise self.wrong(f"expected {phrase}")

    def take_last(self, phrase: str) -> bool:
        """Cut these keywords off the end of the statement if it ends with them."""
        count = len(phrase.split())
        last = self._tokens[max(self._at, len(self._tokens) - count) :]
        if [self._source(token).upper() for token in last] != phrase.split():
            return False
        self._stop = last[0].start
        del self._tokens[-count:]
        return True

    def statement(self, after: int = 0) -> str:
        """The statement's text behind its first tokens, without the semicolons at its end."""
        begin = self._tokens[after - 1].end + 1 if after else 0
        return self.text[begin : self._stop].strip()

    def skip(self) -> None:
        """Move past one token, whatever it is."""
        self._at = min(self._at + 1, len(self._tokens))

    def skip_parentheses(self) -> None:
        """Move past a parenthesised text, or one token where none begins."""
        depth = 0
        while not self.done:
            depth += {"(": 1, ")": -1}.get(self.word(), 0)
            self.skip()
            if depth <= 0:
                return

    def parts(self, what: str) -> tuple[str, ...]:
        """The parts of a dotted name, or of one given as IDENTIFIER('…')."""
        if self.sees("IDENTIFIER ("):
            return self._identifier_clause()
        parts = [self._part(what)]
        while self.take("."):
            parts.append(self._part(what))
        return tuple(parts)

    def name(self, what: str = "a name") -> str:
        """A dotted name, in its canonical text."""
        return dotted(self.parts(what))

    def string(self) -> str:
        """A string literal; doubled quotes inside stand for one."""
        if self.done or self._tokens[self._at].token_type not in STRINGS:
            raise self.wrong("expected a string in quotes")
        token = self._tokens[self._at]
        self.skip()
        if self._doubled_quote_after(token):
            return token.text + self._source(token)[-1] + self.string()
        return token.text

    def number(self, what: str = "a number") -> float:
        """A number, with its sign."""
        sign = -1.0 if self.take("-") else 1.0
        if self.done or self._tokens[self._at].token_type != TokenType.NUMBER:
            raise self.wrong(f"expected {what}")
        text = self._tokens[self._at].text
        self.skip()
        return sign * float(text)

    def at_string(self) -> bool:
        """Whether a string literal comes next."""
        return not self.done and self._tokens[self._at].token_type in STRINGS

    def properties(self) -> Properties:
        """A list of properties, as in ('k' = 'v', a.b = 1); one without a value has ""."""
        self.expect("(")
        properties = [self._property()]
        while self.take(","):
            properties.append(self._property())
        self.expect(")")
        return tuple(properties)

    def rest(self, what: str) -> tuple[str, int]:
        """All text from here to the end of the statement, exactly as written, and where it begins."""
        self.single()
        if self.done:
            raise self.wrong(f"expected {what}")
        after = self._tokens[self._at - 1].end + 1 if self._at else 0
        self._at = len(self._tokens)
        text = self.text[after : self._stop].lstrip()
        return text.rstrip(), self._stop - len(text)

    def end(self) -> None:
        """Nothing may follow."""
        self.single()
        if not self.done:
            raise self.wrong("expected the end of the statement")

    def single(self) -> None:
        """The rest can be read and holds no further statement."""
        if not self._readable:
            raise self._at_offset(self._unread(), "a quote or comment is not closed")
        for token in self._tokens[self._at :]:
            if token.token_type == TokenType.SEMICOLON:
                hint = "run the statements one by one"
                raise self._at_offset(token.start, "more than one statement", hint)

    def wrong(self, message: str, hint: str = "") -> Invalid:
        """An error at the next token that says what was found there."""
        if self.done and not self._readable:
            return self._at_offset(self._unread(), "a quote or comment is not closed")
        found = "the end" if self.done else repr(self._source(self._tokens[self._at]))
        return self._at_offset(self.offset, f"{message}, found {found}", hint)

    def _source(self, token: Token) -> str:
        return self.text[token.start : token.end + 1]

    def _part(self, what: str) -> str:
        if self.done:
            raise self.wrong(f"expected {what}")
        token = self._tokens[self._at]
        quoted = token.token_type == TokenType.IDENTIFIER
        if not token.text or not (quoted or _plain(token, self._source(token))):
            hint = "write names with other characters in backquotes, as in `my view`"
            raise self.wrong(f"expected {what}", hint)
        self.skip()
        return token.text

    def _property(self) -> tuple[str, str]:
        key = self.string() if self.at_string() else ".".join(self.parts("a property's name"))
        if not self.take("=") and self.word() in {",", ")"}:
            return key, ""
        return key, self.string() if self.at_string() else self._literal()

    def _literal(self) -> str:
        sign = "-" if self.take("-") else ""
        if self.done:
            raise self.wrong("expected a value")
        token = self._tokens[self._at]
        self.skip()
        return sign + self._source(token)

    def _identifier_clause(self) -> tuple[str, ...]:
        self.take("IDENTIFIER (")
        parts = name_parts(self.string())
        self.expect(")")
        return parts

    def _doubled_quote_after(self, token: Token) -> bool:
        return (
            self.at_string()
            and self._tokens[self._at].start == token.end + 1
            and self._source(self._tokens[self._at])[0] == self._source(token)[-1]
        )

    def _unread(self) -> int:
        after = self._tokens[-1].end + 1 if self._tokens else 0
        return after + len(self.text[after:]) - len(self.text[after:].lstrip())

    def place(self) -> str:
        """Where the next token is, and the text there."""
        return self._place(self.offset)

    def _place(self, offset: int) -> str:
        line, column = position(self.text, offset)
        near = self.text[offset : offset + 40].split("\n")[0].strip()
        return f"line {line}, column {column}" + (f", at: {near}" if near else "")

    def _at_offset(self, offset: int, message: str, hint: str = "") -> Invalid:
        detail = self._place(offset)
        return Invalid(message, detail=detail, hint=hint, reason="SYNTAX")


def _plain(token: Token, source: str) -> bool:
    """Whether an unquoted token may stand for a name: any word, since Spark reserves none."""
    return token.token_type != TokenType.NUMBER and all(c.isalnum() or c == "_" for c in source)
