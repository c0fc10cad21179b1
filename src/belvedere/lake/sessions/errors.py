"""Spark's errors as ours: what the user wrote wrong is Invalid, with Spark's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, PySparkException

from belvedere.errors import BelvedereError, Internal, Invalid
from belvedere.sql.merges import MISMATCH

_CONFLICT = re.compile(
    r"DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|Concurrent\w+Exception"
)
_GONE = re.compile(
    r"PATH_NOT_FOUND|FAILED_READ_FILE\.FILE_NOT_EXIST|DELTA_CHANGE_DATA_FILE_NOT_FOUND"
    r"|DELTA_FILE_NOT_FOUND|DELTA_VERSION_NOT_FOUND|DELTA_VERSIONS_NOT_CONTIGUOUS|DELTA_TRUNCATED_TRANSACTION_LOG"
    r"|DELTA_LOG_FILE_NOT_FOUND|FileNotFoundException|VersionNotFound"
)
_DATA_STATES = ("21", "22", "P0")
"""Classes of SQLSTATE: too many rows, a value that has no result, an error that a query raises."""
_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_.]*)\] (.*?) ?SQLSTATE: ([0-9A-Z]{5})", re.DOTALL)
_OUR_STATE = "belvedere: "
"""What our own SQL raises about a stored state; whoever wrote that SQL handles it."""
MANY_ROWS = "SCALAR_SUBQUERY_TOO_MANY_ROWS"
_OUR_MANY_ROWS = "a subquery used as a value gave more than one row"
_ADVICE = re.compile(r"(?<=[.]) (?=Use [`']|Use the SQL function|Correct the value|If necessary )")
_OTHER_MODE = re.compile(r' ?If necessary set "?spark[.]sql[.]ansi.*? to bypass this error[.]?')
"""What Spark advises and a view must not do: under another mode it would have other rows."""
_BY_ZERO = re.compile("divide by zero|division by zero", re.IGNORECASE)
_NAME = "INVALID_SCHEMA_OR_RELATION_NAME"
# The last is a table that the catalog knows and whose files are gone.
_MISSING = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST"})


class Gone(Invalid):
    """A file or version that a read needs is not there."""


class StateMismatch(Internal):
    """Stored rows are not those of the vector that they carry: to be computed again."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """What is missing while this block reads is told as Gone."""
    try:
        yield
    except Gone:
        raise
    except Exception as error:
        # What was translated on its way has Spark's error as its cause.
        if not is_gone(error.__cause__ or error):
            raise
        raise Gone(
            f"a file or a version that {what!r} needs is missing",
            detail=_missing(error),
            hint="put it back, or RESTORE the table; views keep their rows until then",
            reason="VERSION_GONE",
        ) from error


@contextmanager
def noticing_mismatch(name: str, *, by_division: bool = False) -> Iterator[None]:
    """A guard against rows that stored rows do not have leaves this block as StateMismatch.

    Where a merge is told `by_division` the guard is one by zero, and there is no other in it.
    """
    try:
        yield
    except Exception as error:
        told = MISMATCH in str(error) or (by_division and _BY_ZERO.search(str(error)) is not None)
        if isinstance(error, StateMismatch) or not told:
            raise
        raise StateMismatch(
            f"the rows of {name!r} are not what their vector says",
            hint="compute them again: REFRESH MATERIALIZED VIEW … FULL",
            reason=MISMATCH,
        ) from error


@contextmanager
def translated() -> Iterator[None]:
    """Spark's analysis errors leave this block as Invalid."""
    try:
        yield
    except AnalysisException as error:
        raise as_invalid(error) from error


@contextmanager
def named_as_invalid() -> Iterator[None]:
    """Errors that Spark has a name for, also of single values, leave this block as Invalid."""
    try:
        yield
    except BelvedereError:
        raise
    except Exception as error:
        known = as_known(error)
        if known is None:
            raise
        raise known from error


@contextmanager
def computing(what: str) -> Iterator[None]:
    """Errors in the data while `what` is computed leave this block as Invalid, with its name."""
    try:
        yield
    except BelvedereError:
        raise
    except Exception as error:
        found = data_error(error, what)
        if found is None:
            raise
        raise found from error


def data_error(error: BaseException, what: str = "the query") -> Invalid | None:
    """The error in the data that made Spark fail, without its SQL and its stack; None if it is another.

    >>> text = "o12.collect: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012"
    >>> print(data_error(RuntimeError(text), "view 'v'"))
    view 'v' cannot be computed: Division by zero.
      detail: Spark says DIVIDE_BY_ZERO, SQLSTATE 22012
      hint: correct the rows, or change the query. Use `try_divide`.
    """
    # What failed inside a task stands in the stack alone.
    text = f"{error}\n{getattr(error, '_stackTrace', '') or ''}"
    states = ((m[1], m[2].strip(), m[3]) for m in _ERROR_CLASS.finditer(text))
    found = next((f for f in states if _is_of_data(f[0], f[2])), None)
    if found is None or found[1].startswith(_OUR_STATE):
        return None
    name, said, state = found
    first, *advice = _ADVICE.split(_OTHER_MODE.sub("", said))
    if name == MANY_ROWS or said.startswith(_OUR_MANY_ROWS):
        name, state = MANY_ROWS, "21000"
        advice = ["Aggregate the subquery, as in max(…), or let its condition leave one row."]
    return Invalid(
        f"{what} cannot be computed: {first}",
        detail=f"Spark says {name}, SQLSTATE {state}",
        hint=" ".join(["correct the rows, or change the query.", *advice]),
        reason=name,
    )


def _is_of_data(name: str, state: str) -> bool:
    """Whether an error is one in the data; of Delta's, those of versions have the same states."""
    about_table = name.startswith("DELTA_") and name != "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"
    return state.startswith(_DATA_STATES) and not about_table


def as_invalid(error: PySparkException) -> Invalid:
    """What Spark said, in one line, with the rest as detail."""
    known = data_error(error)
    if known is not None:
        return known
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", str(error)).split("\n\nJVM stacktrace")[0].strip()
    head, _, rest = text.partition("\n")
    head = re.sub(r"\s*SQLSTATE: \w+", "", head).rstrip("; ")
    if "+- " in rest or rest.startswith("'"):
        rest = ""  # a plan of Spark's, which says nothing to who wrote the SQL
    hint = ""
    if condition(error) == _NAME:
        hint = "tables and permanent views have names of letters a-z, digits and _"
    return Invalid(head, detail=rest.strip(), hint=hint, reason=condition(error) or "SPARK")


def as_known(error: BaseException) -> Invalid | None:
    """An error that Spark has a name for, such as a division by zero, as Invalid; None otherwise."""
    if isinstance(error, PySparkException) and condition(error):
        return as_invalid(error)
    return data_error(error)


def condition(error: BaseException) -> str:
    """Spark's name for the error, or nothing."""
    return (error.getCondition() or "") if isinstance(error, PySparkException) else ""


def is_missing(error: BaseException) -> bool:
    """Whether a table or view was not found."""
    return condition(error) in _MISSING


def is_conflict(error: BaseException) -> bool:
    """Whether another writer came first and the same write may be tried again."""
    return _CONFLICT.search(str(error)) is not None


def is_gone(error: BaseException) -> bool:
    """Whether files or versions that a read needs were cleaned away: reason VERSION_GONE."""
    return isinstance(error, FileNotFoundError) or _GONE.search(str(error)) is not None


def _missing(error: BaseException) -> str:
    """What is missing, as far as an error says: a file, or else Spark's own words."""
    named = re.search(r"(?:file:)?/\S+\.(?:parquet|json|bin)", str(error))
    words = re.search(r"\[DELTA_\w+\] (.*)", str(error))
    found = named or words
    return found[found.lastindex or 0].strip() if found else str(error).split("\n", 1)[0]
