"""Reasons: every reason code once, with its sentence, its remedy and what it is used for.

Errors, the outcomes of refreshes, `status` and `history` carry the codes. The tables of
docs/limitations.md are made from this module: `python -m tests.test_reasons`. Errors that Spark
raises keep the name that Spark has for them, such as `DIVIDE_BY_ZERO`; those are not listed here.

A line of a table is `CODE | sentence | remedy`. The remedy is empty where there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class ReasonUse(Enum):
    """What a code is used for; the value is the name of its table in docs/limitations.md."""

    REBUILD = "rebuild"
    """A refresh computes everything again."""
    REPLACE_KEYS = "replace keys"
    """A refresh computes the touched groups again."""
    CAPTURE = "capture"
    """A sketch is captured again, besides the reasons that all refreshes have."""
    NOT_MAINTAINED = "not maintained"
    """A query has a meaning, but no view is maintained from it."""
    MISTAKE = "mistake"
    """A query means nothing here."""
    DEFINITION = "definition"
    """A definition that cannot be stored, compared or named."""
    STATEMENT = "statement"
    """A statement would break a derivation, or names something else."""
    SAMPLE = "sample"
    SCHEDULE = "schedule"
    SYNOPSIS = "synopsis"
    SKETCH = "sketch"
    UPDATE = "update"
    MACHINE = "machine"


@dataclass(frozen=True)
class Reason:
    """Why something is not done, or not done from the changes, and what helps."""

    code: str
    sentence: str
    remedy: str
    use: ReasonUse

    def __str__(self) -> str:
        """
        >>> print(REASONS["POLICY_FULL"])
        POLICY_FULL: the refresh policy is FULL
        """
        return f"{self.code}: {self.sentence}"


def _table(use: ReasonUse, text: str) -> dict[str, Reason]:
    """The reasons of a table; a code that stands twice in it is an error.

    >>> _table(ReasonUse.STATEMENT, "CYCLE | a view reads itself | break the cycle")["CYCLE"].remedy
    'break the cycle'
    """
    reasons: dict[str, Reason] = {}
    for line in text.strip().splitlines():
        code, sentence, remedy = (part.strip() for part in line.split("|"))
        if code in reasons:
            raise ValueError(f"{code} stands twice")
        reasons[code] = Reason(code, sentence, remedy, use)
    return reasons


_REBUILD = """
REQUESTED | a full refresh was requested |
CHEAPER | a full computation is predicted to be faster than applying the changes | set the policy INCREMENTAL
POLICY_FULL | the refresh policy is FULL | set the policy AUTO
FLOAT_KEY | a floating-point sum below another operator cannot be subtracted exactly | sum decimals, or make the inner query a view of its own
GLOBAL_WINDOW | a window function has no PARTITION BY, so any change can affect every row | add PARTITION BY
NESTED_LIMIT | ORDER BY … LIMIT is below another operator, so any change can affect its rows | put the LIMIT at the top, where it is applied at read
NO_CHANGE_FEED | a table did not record its changes | call lake.enable_change_feed(table)
VERSION_GONE | VACUUM or log retention removed a version or change file that the refresh needs | refresh more often than the retention, or lengthen it
TABLE_REPLACED | a table was replaced, or dropped and created again | write with INSERT OVERWRITE, DELETE or MERGE, which keep the table
SCHEMA_CHANGED | a column that the definition uses changed its type or is gone | replace the view if the column is gone
PARTITIONS_CHANGED | a table was rewritten with other partition columns |
VERSION_BEHIND | a table is at an earlier version than the one already applied, for example after a restore from a backup | use RESTORE, which keeps the history
PART_AHEAD | a part of the view was refreshed without the view | refresh the view as a whole
REDEFINED | the stored rows belong to an earlier definition: an outlier index has new bounds, a replacement was interrupted, or CHAR was stored without padding |
FOREIGN_WRITE | something other than Belvedere wrote to the stored table | leave the tables __bv_… alone
VECTOR_LOST | log cleanup removed the record of the versions that were applied | refresh more often than the log's retention
STATE_MISMATCH | a change deletes a row that the stored rows do not contain | leave the tables __bv_… alone
CORRUPT_STATE | the saved state is damaged |
OTHER_FORMAT | another version of Belvedere saved the state |
DRAWN | the synopsis is drawn by Spark, and rows were deleted, too many were added, or too few pass the filters |
"""

_REPLACE_KEYS = """
LOST_EXTREMUM | a minimum or maximum may have been deleted |
NOT_ADDITIVE | the aggregate cannot be updated by addition |
"""

_CAPTURE = """
SKETCH_NOT_KEPT | the query has a form that is not maintained in memory: nested aggregates, DISTINCT, outer or semi joins, windows, count(DISTINCT …), other aggregates, ORDER BY text, or a HAVING that is not computed in memory |
SKETCH_DECIMALS | the session computes decimals without loss of precision | set spark.sql.decimalOperations.allowPrecisionLoss = true
SKETCH_SUM_TOO_LARGE | a sum has more than 18 digits |
SKETCH_NOT_FINITE | a sum contains NaN or infinity |
SKETCH_BUFFER_DRY | all buffered minimum or maximum values of a group were deleted | give the sketch a larger BUFFER
SKETCH_TOO_LOOSE | the rows that a loosely kept sketch ignored are half as many as the table has | create the sketch without KEPT LOOSELY
SKETCH_NEGATIVE_COUNT | more rows were deleted than inserted, so the state does not fit the change feed |
SKETCH_BOUND_BROKEN | a change left the range of values that the safety of the sketch relies on |
SKETCH_STATE_LOST | the state of the sketch is no longer in memory |
"""

_NOT_MAINTAINED = """
NOT_REPEATABLE | the value would differ when the view is computed again | apply it when reading the view, or store it in a table
CORRELATION | the form of the correlated subquery is not supported | join with a subquery that is grouped by the key
SUBQUERY_IN_ON | a subquery in ON of an outer, semi or anti join reads both sides | let it read one side, and compare the result in ON
QUANTIFIED | a value is compared with ANY or ALL of a subquery | write IN, EXISTS, or a comparison with min or max
SEVERAL_COLUMNS_IN | IN with several columns is not a condition of WHERE by itself | write EXISTS, or NOT EXISTS with the NULLs that NOT IN considers
NO_FROM | a SELECT without FROM reads no table | select from a table
VALUES | the query contains its rows as VALUES | insert the rows into a table
GENERATOR | LATERAL VIEW, or a function that makes several rows of one | store the exploded rows in a table
LATERAL | a LATERAL subquery | join with a subquery that is grouped by the key
TABLE_FUNCTION | a table function in FROM | select from a table
TIME_TRAVEL | VERSION AS OF or TIMESTAMP AS OF, while a view follows its tables | read the old version with a query of its own
TABLESAMPLE | the sample would differ each time | create a sample with CREATE SAMPLE
PIVOT | PIVOT or UNPIVOT | write sum(CASE WHEN … THEN … END) per column
STAR | a star over a struct, in an expression, or with REPLACE | name the columns
JOIN_KIND | the kind of join is not supported | write INNER, LEFT, RIGHT, FULL, SEMI or ANTI JOIN
DISTINCT_ON | DISTINCT ON | keep row 1 of row_number()
BY_NAME | a set operation BY NAME | list the columns in one order
RECURSIVE | WITH RECURSIVE | compute the closure outside the view
WINDOW_OVER_TIME | window(), session_window() or window_time() | group by date_trunc(…), or by a quotient of the seconds
NESTED_WINDOW | a window function is inside another | compute the inner one in a subquery
PERCENTILE_ORDER | a percentile in descending order | order ascending, by 1 minus the fraction
OFFSET | OFFSET without LIMIT | add a LIMIT greater than the number of rows
LIMIT_NOT_A_NUMBER | a LIMIT or OFFSET is an expression | write a number
SCRIPT | TRANSFORM with a script | write it in SQL
PIPE | a query with pipes | write it as one SELECT
OPERATOR | the operator is not supported | write the function of the same meaning
IDENTIFIER_CLAUSE | a name is given as IDENTIFIER(…) | write the name itself
OTHER_QUERY | the clause or the kind of query is not supported | write SELECT … FROM without it
NOT_READ | Spark accepts the text, but Belvedere's parser does not | write it another way
"""

_MISTAKE = """
SYNTAX | the text is not a statement or query | correct it at the place that the error names
NO_SUCH_COLUMN | no column has this name | write one of the columns that the error lists
AMBIGUOUS_COLUMN | several columns have this name | write the table's name before it
UNKNOWN_TABLE | no table or view has this name | write one of the names that the error lists
UNKNOWN_WINDOW | OVER names a window that the WINDOW clause does not define | define it
DUPLICATE_COLUMN | two columns of a view have the same name | rename one with AS
COLUMN_COUNT | two lists of columns differ in length | give both the same number of columns
NO_SUCH_POSITION | GROUP BY or ORDER BY names a position that the SELECT list does not have | write a number of the SELECT list, or a name
NOT_GROUPED | a column is neither grouped nor aggregated | add it to GROUP BY, or aggregate it
NOT_SHOWN | ORDER BY names a column that SELECT DISTINCT does not return | select the column too
AGGREGATE_PLACE | an aggregate is in WHERE, in GROUP BY or in another aggregate | put the condition into HAVING, or aggregate in a subquery
GROUPING_FUNCTION | the argument of grouping() is in every grouping set | name a key of ROLLUP, CUBE or GROUPING SETS
PARAMETER | a parameter has no value in a definition | write the value instead
"""

_DEFINITION = """
UNSTORABLE_TYPE | Delta tables cannot store or merge values of the type: INTERVAL, VOID, VARIANT, and nested values with CHAR(n) | cast the column, or select its parts
UNCOMPARABLE_TYPE | values of the type cannot be compared, and rows are told apart by their values | leave the column out, or cast it
RESERVED_NAME | names that begin with two underscores are reserved for hidden columns | rename the column
CHAR_COMPARISON | Spark pads this comparison of a CHAR(n) column in its own way | compare with the text itself, or with CAST(c AS STRING)
CHAR_SETTINGS | the session does not read or compare CHAR(n) columns with the default settings | set spark.sql.readSideCharPadding and the legacy settings of CHAR back
CASE_SENSITIVE | the session distinguishes upper and lower case in names | set spark.sql.caseSensitive = false
NOT_A_DELTA_TABLE | the table is not a Delta table and has no versions | store the rows in a Delta table
CYCLE | a view reads itself, directly or through others | break the cycle
NAME_TAKEN | a table or another derivation has the name | choose another name
VIEW_CLAUSE | CREATE MATERIALIZED VIEW does not have the clause | leave the clause out
OWN_PROPERTY | Belvedere sets the table property itself | leave the property out
NAME_TOO_LONG | the name is too long for the files that are named after it | choose a shorter name
NAME_WITH_DOT | a new name contains a dot or a backquote, and the lake is a directory | choose another name
OTHER_SCHEMA | the name is in another schema, and a lake in a directory has one schema | leave the schema out, or connect with a session
TABLE_NAME | Spark's catalog allows only letters, digits and _ in names of tables | choose another name
AMBIGUOUS | Spark reads the SELECT list in another way, because a column is named like a keyword | write such names in backquotes
NESTING | an expression has several hundred levels or terms | write IN for a chain of OR, or a view below
"""

_STATEMENT = """
NEEDED | a derivation reads the table, view or column, or needs its change feed | drop or replace the derivation first
IS_A_VIEW | the statement is for tables, and the name is a view's | name a table
IS_OURS | belvedere.refreshes is Belvedere's own table and can only be read | read it
NOT_A_VIEW | the name is a table's | name a view
UNKNOWN_VIEW | no view of this kind has the name | write one of the names that SHOW lists
NO_LAKE | the argument is not a lake | give a directory or a Spark session
PART_GONE | something other than Belvedere dropped the table of a part | replace the view
CORRUPT_DEFINITION | the definition in a stored table cannot be read | drop the view, or create it again
LOCKED | another process works on the same view and did not finish in time | try again
CONCURRENT_REFRESH | another process refreshed the same view at the same time | try again
ALTER_VIEW | ALTER MATERIALIZED VIEW does not have the clause | replace the view
ONE_SCHEMA | a lake in a directory has one schema | create the table without naming a schema
RENAMED_TABLE | a table of a lake in a directory cannot be renamed | create a table of the new name
BAD_KEY | the columns cannot be a key, or do not match the key that they refer to | name columns that the tables have, as many on both sides
UNREADABLE_LOG | the log of a table is damaged, or cannot be read without Spark | put the file back, or use Spark
HALF_MADE | an update was interrupted, and its record is damaged | see what the last commits did, and create the view again
LOCK_FILE | a lock file's name is that of a link or of something else | remove it
"""

_SAMPLE = """
NO_SAMPLE | the view has no sample | create a sample
NO_VIEW | the estimate is not over a view | name a view that has a sample
SAMPLE_OF_LIMIT | the rows that a LIMIT keeps depend on all other rows | sample the view without its LIMIT
SAMPLE_OF_ONE_ROW | a view without GROUP BY columns has one row | query the view
SAMPLE_OF_SAMPLE | the view is a sample itself | sample the view that it is of
SAMPLE_KEY | the columns to hash change with the rows | hash the columns of GROUP BY
UNHASHABLE_TYPE | values of the type cannot be hashed: ARRAY, MAP, STRUCT, or text with a collation | name other columns in BY (…)
OUTLIERS_BLOCKED | an anti join, an outer join or EXCEPT reads the table, so fewer rows of it can mean more rows of the view | write OUTLIERS AUTO
NO_OUTLIERS | outliers of the column cannot be kept | name a number that the view reads
ESTIMATE_NESTED | rows of different keys are combined before they are counted | create a view of the inner query
ESTIMATE_TWO_SAMPLES | the query reads two sampled views, or one twice | query one sampled view at a time
ESTIMATE_AGGREGATE | no estimator for the aggregate would be correct | query the view after a refresh
ESTIMATE_DISTINCT | count(DISTINCT …) is estimated for the hashed key only | query the view after a refresh
ESTIMATE_TYPE | the aggregated values are not numbers | cast the column, or query the view after a refresh
ESTIMATE_EXPRESSION | the function of aggregates has no interval | combine aggregates by + − × ÷, CASE, COALESCE, NULLIF
ESTIMATE_ORDER | ORDER BY … LIMIT is not by an estimate | order by an estimate
OTHER_VERSION | the sample is not at the requested versions | request the versions that it is at
NO_MATPLOTLIB | plots need matplotlib | install belvedere[plots]
TOO_SLOW | refreshes cannot keep up with what arrives | reduce the arrivals, or the cost of a row in a refresh
NOT_MEASURED | no refresh or cleaning of the view from changes is recorded | run one after a change, or give its cost
"""

_SCHEDULE = """
LIMIT_TOO_SHORT | a single change of some table takes longer than the limit | set the limit that the error names
VIEW_OVER_VIEW | the view reads another view, so its pending changes are not those of tables | define the view on the tables
CONDITION_READS_VIEW | the condition of a subscription reads a view, which is not fresh at that time | read the tables
BAD_CONDITION | the condition of a subscription has no truth value | write a comparison
NOTHING_PENDING | a table has no changes to measure | write to the table, or calibrate on copies
NO_LIMIT | the view has no response limit | set one
NOT_CALIBRATED | the costs of the view were not measured | calibrate the view
NOT_LOCAL | calibration needs tables in a lake's directory, because it works on linked copies | connect to a directory
NOTHING_TO_KEEP | no view has a limit or a subscription | set a limit
NOT_KEPT | the service does not serve the view | name the view when the service starts
NO_ANSWER | the service did not answer in time | ask again, or wait longer
NOT_REFRESHED | the service could not refresh the view | read the cause in the detail
STOPPING | the service is stopping | ask the next one
CANNOT_LISTEN | the address or port is not available | choose another port
TOKEN_NEEDED | others could reach the service without a token | give a token
WEBHOOK_NOT_ALLOWED | the address of the webhook is not allowed | name it with --allow-webhook
UNKNOWN_SUBSCRIPTION | no subscription has the name | list the subscriptions
BAD_ARRIVALS | a line of the arrivals file is wrong, or the file has none | correct the line
BAD_MEASUREMENT | a measured time or a cost function is impossible | measure again
NO_CHANGES | the changes cannot be read from the tables' logs, or not for one table alone | give a file of arrivals, or refresh as a whole
PLAN_TOO_LARGE | an optimal plan has too many steps and tables | plan fewer steps
"""

_SYNOPSIS = """
SHAPE | a synopsis is defined by joins and filters only | create a view of the other part, and a synopsis over it
DISCONNECTED | no condition joins the tables | join them
RANGE | a range condition between tables cannot be computed with 64-bit integers | add an equality, or a filter
EXPRESSION | the expression or filter is not computed in memory | compute it in a view
TYPE | the type of the value or column is not supported | leave the column out, or give a value of its type
TOO_LARGE | the share of the join would not fit into memory | request a number of rows
MEMORY | the tables do not fit into memory | select fewer columns
NOT_UNIQUE | two rows have the same declared key | correct the rows
AGGREGATE | a synopsis does not estimate the aggregate | use count, sum, avg, median or percentile
COUNTS | exact counts are for one join key | count by a join key
BAD_ROWS | the rows do not fit the table, or are not in it | give rows as the table has them
UNKNOWN_SYNOPSIS | no synopsis has the name | list the synopses
"""

_SKETCH = """
SKETCH_HAVING | HAVING may hold for some rows of a group and not for all | partition the table by a GROUP BY column
SKETCH_ORDER | ORDER BY may rank some rows of a group higher than all of them, or puts NULL first | partition by a GROUP BY column, or write NULLS LAST
SKETCH_PARTIAL_GROUPS | groups that may lack rows are read by a join or another aggregate | put a column into the GROUP BY of every aggregate
SKETCH_INNER_LIMIT | a LIMIT is under another operator | sketch the inner query by itself
SKETCH_WINDOW | a window function reads rows that may be skipped | partition by a PARTITION BY column
SKETCH_NOT_MONOTONE | NOT EXISTS, EXCEPT or an outer join reads the table | partition another table of the query
SKETCH_ROUNDING | a sum of floating point depends on the order of its rows | partition by a GROUP BY column, or sum decimals
SKETCH_OF_VIEW | the query reads a materialized view | read the tables of the view
SKETCH_NOT_SAFE | no column that the query reads is safe | run the query as it is
NO_ORDER | values of the column's type have no order | partition by another column
NO_WIDTH | ranges of equal width need numbers, dates or timestamps | leave EQUI WIDTH out
OVERLAPPING_RANGES | ranges overlap | give bounds in ascending order
FRAGMENT_COUNT | the number of fragments is too small or too large | give another number
UNKNOWN_SKETCH | no sketch has the name | list the sketches
SKETCH_RETIRED | the sketch is no longer used | create it again
SKETCH_TEXT | the text of the query cannot be restricted to the ranges of the sketch |
"""

_UPDATE = """
NOT_SPJ | an updatable view consists of joins, filters and projections | leave out aggregates, outer joins and set operations
COMPUTED_COLUMN | an updatable view shows columns as they are | leave the computed column out
JOIN_CONDITION | a condition on two tables is not an equality | join by equalities
CARTESIAN_PRODUCT | a table is joined with no other | join all tables
JOIN_TYPES | columns of two types are joined | cast one in its table
OVER_A_VIEW | an updatable view reads a materialized view | define it on the tables
HIDDEN_KEYS | the view does not show a key, or a column that it joins on | show the column
NO_STATE_DIRECTORY | the lake has no directory for state that is kept in memory | connect with state=DIR
UNWRITABLE_TABLE | a base table cannot be written without Spark | use Spark
NEEDS_SPARK | a base table cannot be read without Spark | use Spark
SELECTION | a WHERE on one table is not computed in memory, or is never true | write a simpler condition
CHECK_EXPRESSION | a CHECK is not computed for a row before it is written | write the base table directly
TOO_MUCH | the update touches too many joins | write the base tables directly
TOO_MANY_ROWS | the update has too many view rows | update fewer rows
SIDE_EFFECTS | the update would change other rows of the view | write WITH SIDE EFFECTS ALLOWED
NOT_TRANSLATABLE | no change of the tables makes the update | write the base tables directly
NOT_UPDATABLE | the name is not an updatable view's | name an updatable view
NAMED_TWICE | the statement names a row twice | name it once
ROWS_BECOME_ONE | two rows of the view would become equal, and the view is a set | write other values, or delete one of them
ALREADY_THERE | the view has the row already | insert rows that it does not have
NO_SUCH_ROW | the table or view does not have the row | name a row that it has
COLUMNS | the values do not fit the view's columns | give one value for each column
ROWS | the rows are given in a form that is not supported | give a list of rows or a table
CONTRADICTION | the view shows a value twice, and the two given values differ | give one value
STATEMENT | a part of the statement would be ignored | write INSERT, UPDATE or DELETE without it
CONCURRENT_CHANGE | another process changed a table at the same time | try again
MODE | the mode does not exist | write one of the modes that the error lists
KEY | the key is NULL, or another row has it | give another key
CHECK | the row would violate a constraint | give values that satisfy it
FOREIGN_KEY | the row would refer to no row, or other rows refer to it | update the other table too
FAILS_WHERE | the row would not satisfy the view's WHERE | give values that satisfy it
NO_NEW_KEY | no new value for a hidden key was found | show the key
"""

_MACHINE = """
BAD_VALUE | the value is out of its range, or of another type | give a value in the range that the error names
NOT_IN_QUERY | the view or query does not read the table | name a table that it reads
OPTIONS | the options exclude each other, or are not supported | keep one of them
UNREADABLE_FILE | the file or directory cannot be read or used | name another
NO_SPARK | Java or Spark is missing, or did not start | install what the error names
SPARK | Spark raised an error that has no name |
DISK_FULL | the disk is full | make room and try again
READ_ONLY | the permission to write is missing | get the permission, or use another directory
OUT_OF_MEMORY | the memory was not sufficient | give Spark more
SPARK_ENDED | Spark has ended | connect again
"""

TABLES: Mapping[ReasonUse, Mapping[str, Reason]] = {
    use: _table(use, text)
    for use, text in [
        (ReasonUse.REBUILD, _REBUILD),
        (ReasonUse.REPLACE_KEYS, _REPLACE_KEYS),
        (ReasonUse.CAPTURE, _CAPTURE),
        (ReasonUse.NOT_MAINTAINED, _NOT_MAINTAINED),
        (ReasonUse.MISTAKE, _MISTAKE),
        (ReasonUse.DEFINITION, _DEFINITION),
        (ReasonUse.STATEMENT, _STATEMENT),
        (ReasonUse.SAMPLE, _SAMPLE),
        (ReasonUse.SCHEDULE, _SCHEDULE),
        (ReasonUse.SYNOPSIS, _SYNOPSIS),
        (ReasonUse.SKETCH, _SKETCH),
        (ReasonUse.UPDATE, _UPDATE),
        (ReasonUse.MACHINE, _MACHINE),
    ]
}
"""Every table of reasons."""

REASONS: Mapping[str, Reason] = {
    code: reason for table in TABLES.values() for code, reason in table.items()
}
"""Every reason by its code."""
