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
