"""Spark's SQL as written: sqlglot's Spark dialect, but functions keep their own names.

sqlglot understands functions by rewriting some into others, which is right between dialects and
loses meaning within one (`percentile_cont` came back as `percentile_approx`). A view's text goes
to Spark again, so here only functions whose text comes back unchanged are understood, and every
other call stays a plain call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

_UNDERSTOOD = frozenset(
    "ABS AVG COALESCE CONCAT COUNT COUNT_IF GREATEST IF LEAST LOWER MAX MIN NULLIF "
    "ROUND STRUCT SUM UPPER ARRAY LIKE ILIKE RLIKE".split()
)
_SPECIAL_SYNTAX = frozenset(
    "CAST TRY_CAST EXTRACT TRIM SUBSTRING SUBSTR POSITION OVERLAY CEIL FLOOR "
    "BROADCAST BROADCASTJOIN MAPJOIN MERGE MERGEJOIN SHUFFLEMERGE SHUFFLE_HASH "
    "SHUFFLE_REPLICATE_NL".split()
)

_BITS = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)
_SUMS: dict[TokenType, type[exp.Binary]] = {
    TokenType.DPIPE: exp.DPipe,
    TokenType.PLUS: exp.Add,
    TokenType.DASH: exp.Sub,
}


class SparkAsWritten(Spark):
    """Spark SQL whose calls come back as they were written."""

    class Tokenizer(Spark.Tokenizer):
        # Since Spark 4, a doubled quote inside a string is a quote.
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    class Parser(SparkParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {
            k: v for k, v in SparkParser.FUNCTIONS.items() if k in _UNDERSTOOD
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            k: v for k, v in SparkParser.FUNCTION_PARSERS.items() if k in _SPECIAL_SYNTAX
        }

        def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
            """The trees of the statements; see `_adapted`."""
            return super().parse(_adapted(raw_tokens), sql)

        # Spark's precedence, tightest first: + - ||, shifts, &, ^, |.
        def _parse_bitwise(self) -> exp.Expr | None:
            return self._parse_bits(0)

        def _parse_bits(self, level: int) -> exp.Expr | None:
            if level == len(_BITS):
                return self._parse_shift()
            token, kind = _BITS[level]
            this = self._parse_bits(level + 1)
            while self._match(token):
                this = self.expression(kind(this=this, expression=self._parse_bits(level + 1)))
            return this

        def _parse_shift(self) -> exp.Expr | None:
            this = self._parse_sum()
            while True:
                if self._match_pair(TokenType.LT, TokenType.LT):
                    kind: type[exp.Binary] = exp.BitwiseLeftShift
                elif self._match_pair(TokenType.GT, TokenType.GT):
                    kind = exp.BitwiseRightShift
                else:
                    return this
                this = self.expression(kind(this=this, expression=self._parse_sum()))

        def _parse_sum(self) -> exp.Expr | None:
            this = self._parse_term()
            while self._match_set(_SUMS):
                kind = _SUMS[self._prev.token_type]
                this = self.expression(kind(this=this, expression=self._parse_factor()))
            return this

        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            k: v for k, v in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if k != "ANY"
        }


def parse_tokens(text: str) -> list[exp.Expr | None]:
    """The syntax trees of the statements in a text without comments.

    >>> [tree] = parse_tokens("SELECT all, distinct FROM t GROUP BY all, distinct")
    >>> [column.name for column in tree.selects]
    ['all', 'distinct']
    """
    dialect = SparkAsWritten()
    tokens = dialect.tokenize(text)
    for at, token in enumerate(tokens):
        if token.token_type in _MAY_BE_NAMES and _is_name(tokens, at):
            token.token_type = TokenType.VAR
    return dialect.parser().parse(tokens, text)


_WITHOUT_PARENTHESES = frozenset(Spark.Parser.NO_PAREN_FUNCTIONS)
"""Functions such as current_date, unless a column has the name."""
_MAY_BE_NAMES = _WITHOUT_PARENTHESES | frozenset(
    (
        TokenType.ALL,
        TokenType.DISTINCT,
        TokenType.ALIAS,
        TokenType.INTERVAL,
        TokenType.FETCH,
        TokenType.IN,
    )
)
"""Keywords that are names in Spark where their own syntax does not follow; sqlglot skips them."""
_BEGINS = frozenset((TokenType.SELECT, TokenType.HINT, TokenType.COMMA, TokenType.L_PAREN))
_ENDS = frozenset(
    (
        *(TokenType.COMMA, TokenType.R_PAREN, TokenType.FROM, TokenType.SEMICOLON, TokenType.ALIAS),
        *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
        *(TokenType.NULLSAFE_EQ, TokenType.SLASH, TokenType.MOD, TokenType.DPIPE, TokenType.DOT),
        *(TokenType.IS, TokenType.IN, TokenType.BETWEEN, TokenType.LIKE, TokenType.AND),
        *(TokenType.OR, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY),
        *(TokenType.LIMIT, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT),
    )
)
"""What no expression begins with, so that the word before it is one."""
_QUANTIFIED = frozenset(
    (
        *(TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.LIMIT, TokenType.IS),
        *(TokenType.NOT, TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE),
        *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
    )
)
"""What ALL or DISTINCT belongs to, if it follows."""
_UNITS = frozenset(
    "YEAR MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND NANOSECOND".split()
)


def _is_name(tokens: Sequence[Token], at: int) -> bool:
    """Whether Spark takes a keyword for a name, by what stands around it."""
    before = tokens[at - 1].token_type if at else None
    after = tokens[at + 1].token_type if at + 1 < len(tokens) else TokenType.SEMICOLON
    match tokens[at].token_type:
        case TokenType.ALL | TokenType.DISTINCT if before in _QUANTIFIED:
            return False
        case TokenType.ALL | TokenType.DISTINCT if before in _BEGINS - {TokenType.COMMA}:
            return after in _ENDS
        case TokenType.ALL | TokenType.DISTINCT:
            return tokens[at - 1].text.upper() != "MINUS"
        case TokenType.ALIAS:
            return before in _BEGINS
        case bare if bare in _WITHOUT_PARENTHESES:
            return after is not TokenType.L_PAREN
        case TokenType.FETCH:
            return before in _BEGINS and after in _ENDS
        case TokenType.IN:
            return after in _ENDS
        case _:
            unit = tokens[at + 3].text.upper().removesuffix("S") if at + 3 < len(tokens) else ""
            return after in _ENDS or (
                after in (TokenType.PLUS, TokenType.DASH) and unit not in _UNITS
            )


_SET_OPERATORS = {TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT}
_QUANTIFIERS = {TokenType.ALL, TokenType.DISTINCT}
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}


def _adapted(tokens: list[Token]) -> list[Token]:
    """Tokens in the words that sqlglot knows: `TABLE t` as SELECT * FROM t, and window(…) as a call."""
    new: list[Token] = []
    for i, token in enumerate(tokens):
        following = tokens[i + 1].token_type if i + 1 < len(tokens) else None
        if token.token_type == TokenType.WINDOW and following == TokenType.L_PAREN:
            new.append(_like(token, TokenType.VAR, token.text))
        elif token.token_type == TokenType.TABLE and following in _NAMES and _query_may_begin(new):
            words = ((TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM"))
            new += [_like(token, kind, text) for kind, text in words]
        else:
            new.append(token)
    return new


def _query_may_begin(before: list[Token]) -> bool:
    """Whether a query may begin after these tokens."""
    kinds = [t.token_type for t in before[-2:]]
    if not kinds or kinds[-1] in {TokenType.SEMICOLON, TokenType.L_PAREN, TokenType.R_PAREN}:
        return True
    last = kinds[0] if len(kinds) > 1 and kinds[-1] in _QUANTIFIERS else kinds[-1]
    return last in _SET_OPERATORS


def _like(token: Token, kind: TokenType, text: str) -> Token:
    """A token of another kind at the same place."""
    return Token(kind, text, token.line, token.col, token.start, token.end)
