"""Reasons: every reason code once, with its sentence and its remedy, by what was wanted.

A line of a table is `CODE | sentence | remedy`; the remedy is empty where nothing needs to be done.
The page docs/limitations.md lists the same codes. Errors that Spark raises keep the name that
Spark has for them, such as `DIVIDE_BY_ZERO`; those are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """Why something is not done, or not done incrementally, and what helps."""

    sentence: str
    remedy: str = ""


def _table(text: str) -> dict[str, Reason]:
    """The reasons of a table; a code that stands twice in it is an error.

    >>> _table("CYCLE | a view reads itself | break the cycle")
    {'CYCLE': Reason(sentence='a view reads itself', remedy='break the cycle')}
    """
    reasons: dict[str, Reason] = {}
    for line in text.strip().splitlines():
        code, sentence, remedy = (part.strip() for part in line.split("|"))
        if code in reasons:
            raise ValueError(f"{code} stands twice")
        reasons[code] = Reason(sentence, remedy)
    return reasons


REFRESHES = _table("""
REQUESTED | a full refresh was asked for |
CHEAPER | computing everything again was predicted to take less than the changes | set the policy INCREMENTAL
POLICY_FULL | the view's refresh policy is FULL | set the policy AUTO
FLOAT_KEY | a floating-point sum below another operator cannot be subtracted exactly | sum decimals, or make the inner query a view of its own
GLOBAL_WINDOW | a window function without PARTITION BY: any change can touch every row | add PARTITION BY
NESTED_LIMIT | ORDER BY … LIMIT below another operator: any change can touch its rows | put the LIMIT at the top
NO_CHANGE_FEED | a table did not record its changes; enable_change_feed(table) starts it | call lake.enable_change_feed(table)
VERSION_GONE | a version or change file that the refresh needs was cleaned away | refresh more often than the retention, or lengthen it
TABLE_REPLACED | a table was dropped and created again, or replaced | write with INSERT OVERWRITE, DELETE or MERGE
SCHEMA_CHANGED | a column that the view uses changed | replace the view if the column is gone
PARTITIONS_CHANGED | a table was written anew under other partition columns |
VERSION_BEHIND | a table was put back before the version the view was computed from | use RESTORE, which keeps the history
PART_AHEAD | a part of the view had gone on without it, and is needed where the view is |
REDEFINED | what is stored is of another definition: new bounds of an outlier index, a replacement that was cut off, or CHAR as it was stored before it was read padded |
FOREIGN_WRITE | someone else wrote to the view's stored table | leave the tables __bv_… alone
VECTOR_LOST | the versions the view was computed from are not recorded any more | refresh more often than the log's retention
LOST_EXTREMUM | a minimum or maximum may have been deleted |
NOT_ADDITIVE | an aggregate that cannot be added to is computed again for touched groups |
STATE_MISMATCH | the stored rows were not what their versions say: a row went that they lack | leave the tables __bv_… alone
""")

QUERIES = _table("""
SYNTAX | the text is not a statement or query | correct it at the place that the error names
NO_SUCH_COLUMN | a name that is no column here | write one of the columns that the error lists
AMBIGUOUS_COLUMN | a name that several columns have | write the table's name before it
UNKNOWN_TABLE | a name that no table or view has | write one of the names that the error lists
UNKNOWN_WINDOW | OVER names a window that the WINDOW clause does not define | define it
DUPLICATE_COLUMN | two columns of a view have one name | rename one with AS
COLUMN_COUNT | two lists of columns that must be of one length are not | give both the same number of columns
NO_SUCH_POSITION | GROUP BY or ORDER BY a number that no column has | write a number of the SELECT list, or a name
NOT_GROUPED | a column that is neither grouped nor aggregated | add it to GROUP BY, or aggregate it
NOT_SHOWN | ORDER BY a column that SELECT DISTINCT does not show | select the column too
AGGREGATE_PLACE | an aggregate in WHERE, in GROUP BY or in another aggregate | put the condition into HAVING, or aggregate in a subquery
GROUPING_FUNCTION | grouping() of something that no grouping set leaves out | name a key of ROLLUP, CUBE or GROUPING SETS
PARAMETER | a parameter has no value in a definition | write the value instead
RESERVED_NAME | names that begin with two underscores are those of hidden columns | rename the column
NOT_REPEATABLE | the value would differ when the view is computed again | apply it when reading the view, or store it in a table
CORRELATION | a correlated subquery of a form that is not unnested | join with a subquery that is grouped by the key
SUBQUERY_IN_ON | a subquery in ON of an outer, semi or anti join reads both sides | let it read one side, and compare the result in ON
QUANTIFIED | a comparison with ANY or ALL of a subquery | write IN, EXISTS, or a comparison with min or max
SEVERAL_COLUMNS_IN | IN with several columns where it is not a condition of WHERE by itself | write EXISTS, or NOT EXISTS with the NULLs that NOT IN minds
NO_FROM | a SELECT without FROM reads no table | select from a table
VALUES | rows that are written in the query | insert the rows into a table
GENERATOR | LATERAL VIEW, and functions that make several rows of one | store the exploded rows in a table
LATERAL | a LATERAL subquery | join with a subquery that is grouped by the key
TABLE_FUNCTION | a table function in FROM | select from a table
TIME_TRAVEL | VERSION AS OF and TIMESTAMP AS OF: a view follows its tables | read the old version with a query of its own
TABLESAMPLE | a sample that would be drawn anew each time | create a sample with CREATE SAMPLE
PIVOT | PIVOT and UNPIVOT | write sum(CASE WHEN … THEN … END) per column
STAR | a star over a struct, in an expression, or with REPLACE | name the columns
JOIN_KIND | a kind of join that is not known | write INNER, LEFT, RIGHT, FULL, SEMI or ANTI JOIN
DISTINCT_ON | DISTINCT ON | keep row 1 of row_number()
BY_NAME | a set operation BY NAME | list the columns in one order
RECURSIVE | WITH RECURSIVE | compute the closure outside the view
WINDOW_OVER_TIME | window(), session_window() and window_time() | group by date_trunc(…), or by a quotient of the seconds
NESTED_WINDOW | a window function inside another | compute the inner one in a subquery
PERCENTILE_ORDER | a percentile in descending order | order ascending, by 1 minus the fraction
OFFSET | OFFSET without LIMIT | add a LIMIT greater than the number of rows
LIMIT_NOT_A_NUMBER | a LIMIT or OFFSET that is an expression | write a number
SCRIPT | TRANSFORM with a script | write it in SQL
PIPE | a query with pipes | write it as one SELECT
OPERATOR | an operator that is not read | write the function of the same meaning
IDENTIFIER_CLAUSE | a name that is given as IDENTIFIER(…) | write the name itself
OTHER_QUERY | a clause or a query of a kind that is not read | write SELECT … FROM without it
NOT_READ | Spark understands the text, Belvedere's parser does not | write it another way
""")

VIEWS = _table("""
UNSTORABLE_TYPE | Delta tables cannot hold values of the type | cast the column
UNCOMPARABLE_TYPE | rows are told apart by their values, and values of the type cannot be compared | leave the column out, or cast it
CHAR_COMPARISON | a comparison of a CHAR(n) column that Spark pads in its own way | compare with the text itself, or with CAST(c AS STRING)
CHAR_SETTINGS | a table with CHAR(n) columns, in a session that reads or compares them in another way than by default | set spark.sql.readSideCharPadding and the legacy settings of CHAR back
CASE_SENSITIVE | names have no case here | set spark.sql.caseSensitive = false
NOT_A_DELTA_TABLE | a view reads Delta tables and materialized views | store the rows in a Delta table
CYCLE | a view reads itself, directly or through others | break the cycle
NAME_TOO_LONG | a name that is too long for the files that are named after it | choose a shorter name
NAME_WITH_DOT | a name with a dot or a backquote for something derived in a lake's directory | choose another name
OTHER_SCHEMA | a name of another schema in a lake's directory, which has one schema | leave the schema out, or connect with a session
TABLE_NAME | Spark's catalog takes names of letters, digits and _ for tables | choose another name
AMBIGUOUS | Spark reads the SELECT list otherwise, because a column is named like a keyword | write such names in backquotes
NESTING | an expression of some hundreds of levels or terms | write IN for a chain of OR, or a view below
NAME_TAKEN | a table or another view has the name | choose another name
VIEW_CLAUSE | a clause of CREATE MATERIALIZED VIEW that other systems have | leave the clause out
ALTER_VIEW | an alteration of a materialized view that other systems have | replace the view
OWN_PROPERTY | a table property that views rely on | leave the property out
NEEDED | a view reads what would go or change | drop or replace the view first
IS_A_VIEW | a statement for tables, on a view | name a table
IS_OURS | Belvedere's own table of refreshes is read, not written | read it
NOT_A_VIEW | a name that is a table's | name a view
UNKNOWN_VIEW | no updatable view has the name | write one of the names that SHOW lists
NO_LAKE | what is given is no lake | give a directory or a Spark session
ONE_SCHEMA | a lake in a directory has one schema | create the table without naming a schema
RENAMED_TABLE | a table of a lake in a directory cannot be renamed | create a table of the new name
PART_GONE | the table of a part of a view was dropped by other means | replace the view
CORRUPT_DEFINITION | the definition in a stored table cannot be read | drop the view, or create it again
LOCKED | another process works on the same view, and did not end in time | try again
CONCURRENT_REFRESH | another process refreshed the same view meanwhile | try again
LOCK_FILE | something that is no file stands where a lock file should | remove it
UNREADABLE_LOG | the log of a table is damaged, or cannot be read without Spark | put the file back, or use Spark
BAD_KEY | a key that cannot be declared | name columns that the tables have, as many on both sides
""")

SAMPLES = _table("""
NO_SAMPLE | the view has no sample | create a sample
NO_VIEW | an estimate is over a view | name a view that has a sample
SAMPLE_OF_LIMIT | which rows a LIMIT keeps depends on all others | sample the view without its LIMIT
SAMPLE_OF_ONE_ROW | a view of one row has nothing to sample | ask the view
SAMPLE_OF_SAMPLE | the view is a sample itself | sample the view that it is of
SAMPLE_KEY | the columns to hash change with the rows | hash the columns of GROUP BY
UNHASHABLE_TYPE | values of the type are not hashed | name other columns in BY (…)
OUTLIERS_BLOCKED | fewer rows of the table would mean more rows of the view | write OUTLIERS AUTO
NO_OUTLIERS | a column whose outliers cannot be kept | name a number that the view reads
ESTIMATE_NESTED | rows of different keys are mixed before they are counted | create a view of the inner query
ESTIMATE_TWO_SAMPLES | pairs are sampled less often than rows | ask one sampled view at a time
ESTIMATE_AGGREGATE | no estimator for the aggregate would be right | ask the view after a refresh
ESTIMATE_DISTINCT | distinct values are counted over the hashed key only | ask the view after a refresh
ESTIMATE_TYPE | an aggregate of values that are not numbers | cast the column, or ask the view after a refresh
ESTIMATE_EXPRESSION | a function of aggregates that has no interval | combine aggregates by + − × ÷, CASE, COALESCE
ESTIMATE_ORDER | ORDER BY … LIMIT by something other than an estimate | order by an estimate
OTHER_VERSION | a sample that is not at the versions asked for | ask for the versions that it is at
NO_MATPLOTLIB | plots need matplotlib | install belvedere[plots]
TOO_SLOW | refreshes cannot keep up with what arrives | reduce the arrivals, or the cost of a row in a refresh
NOT_MEASURED | no refresh or cleaning of the view from changes is recorded | run one after a change, or give its cost
""")

SCHEDULES = _table("""
LIMIT_TOO_SHORT | a single change of some table takes longer than the limit | set the limit that the error names
VIEW_OVER_VIEW | a response limit of a view that reads another view | define the view on the tables
CONDITION_READS_VIEW | the condition of a subscription reads a view, which is not fresh then | ask the tables
BAD_CONDITION | the condition of a subscription gives no truth value | write a comparison
NOTHING_PENDING | a table has no changes to time | write to the table, or calibrate on copies
NO_LIMIT | the view has no response limit | set one
NOT_CALIBRATED | the view's costs were not measured | calibrate the view
NOT_LOCAL | calibration works on linked copies of tables in a lake's directory | connect to a directory
NOTHING_TO_KEEP | no view has a limit or a subscription | set a limit
NOT_KEPT | the service does not keep the view | name the view when the service starts
NO_ANSWER | the service did not answer in time | ask again, or wait longer
NOT_REFRESHED | the service could not refresh the view | read the cause in the detail
STOPPING | the service is stopping | ask the next one
CANNOT_LISTEN | the address or port is not free | choose another port
TOKEN_NEEDED | others could reach the service without a token | give a token
WEBHOOK_NOT_ALLOWED | a webhook to an address that is not allowed | name it with --allow-webhook
UNKNOWN_SUBSCRIPTION | no subscription has the name | list the subscriptions
BAD_ARRIVALS | a line of an arrivals file is not right, or there is none | correct the line
BAD_MEASUREMENT | a time or a cost function that cannot be one | measure again
NO_CHANGES | the tables' logs, or a feed of one table alone, tell no changes | give a file of arrivals, or refresh as a whole
PLAN_TOO_LARGE | an optimal plan over too many steps and tables | plan fewer steps
""")

SYNOPSES = _table("""
SHAPE | a synopsis is of joins and filters | create a view of the other part, and a synopsis over it
DISCONNECTED | tables that no condition joins | join them
RANGE | tables joined by a range that cannot be computed in 64 bits | add an equality, or a filter
EXPRESSION | an expression or filter that is not computed in memory | compute it in a view
TYPE | a value or column of a type that does not fit | leave the column out, or give a value of its type
TOO_LARGE | a share of a join that would not fit into memory | ask for a number of rows
MEMORY | the tables do not fit into memory | select fewer columns
NOT_UNIQUE | two rows have a key that was declared | correct the rows
AGGREGATE | an aggregate that a synopsis does not estimate | ask for count, sum, avg, median or percentile
COUNTS | exact counts by something other than one join key | count by a join key
BAD_ROWS | rows that do not fit to the table, or are not there | give rows as the table has them
UNKNOWN_SYNOPSIS | no synopsis has the name | list the synopses
CORRUPT_STATE | the saved state was damaged |
OTHER_FORMAT | the saved state is of another version of Belvedere |
DRAWN | it is drawn on Spark, and rows went, or too many came, or filters left too few |
""")

SKETCHES = _table("""
SKETCH_HAVING | HAVING may hold for some rows of a group and not for all | cut the table by a GROUP BY column
SKETCH_ORDER | ORDER BY may put some rows of a group before all of them | cut by a GROUP BY column, or write NULLS LAST
SKETCH_PARTIAL_GROUPS | groups that may have lost rows go into a join or another aggregate | put a column into the GROUP BY of every aggregate
SKETCH_INNER_LIMIT | a LIMIT under another operator | sketch the inner query by itself
SKETCH_WINDOW | a window function reads rows that may be left out | cut by a PARTITION BY column
SKETCH_NOT_MONOTONE | the table is read where other rows decide which are left out | cut another table of the query
SKETCH_ROUNDING | a sum of floating point depends on the order of its rows | cut by a GROUP BY column, or sum decimals
SKETCH_OF_VIEW | the query reads a materialized view | read the tables of the view
SKETCH_NOT_SAFE | no column that the query reads is safe | run the query as it is
NO_ORDER | ranges of a type without an order | cut another column
NO_WIDTH | ranges of equal width of a column that has no numbers, dates or timestamps | leave EQUI WIDTH out
OVERLAPPING_RANGES | ranges that overlap | give bounds in ascending order
FRAGMENT_COUNT | too few or too many fragments | give another number
UNKNOWN_SKETCH | no sketch has the name | list the sketches
SKETCH_RETIRED | the sketch is not used any more | create it again
SKETCH_TEXT | a query whose text cannot be narrowed to the sketch's ranges |
SKETCH_NOT_KEPT | a query of another form than those kept in memory |
SKETCH_DECIMALS | the session computes decimals without loss of precision | set allowPrecisionLoss = true
SKETCH_SUM_TOO_LARGE | a sum of more than 18 digits |
SKETCH_NOT_FINITE | NaN or an infinity in a sum |
SKETCH_BUFFER_DRY | the least or greatest values of a group that were held are gone |
SKETCH_TOO_LOOSE | half as many rows went unnoted as there are |
SKETCH_NEGATIVE_COUNT | more rows went than ever came |
SKETCH_BOUND_BROKEN | a change left the values that safety relies on |
SKETCH_STATE_LOST | what is kept of the sketch is not in memory any more |
TABLE_PUT_BACK | a table was put back to an earlier version |
""")

UPDATES = _table("""
NOT_SPJ | an updatable view joins, filters and projects | leave out aggregates, outer joins and set operations
COMPUTED_COLUMN | an updatable view shows columns as they are | leave the computed column out
JOIN_CONDITION | a condition on two tables that is no equality | join by equalities
CARTESIAN_PRODUCT | a table that is joined with none | join all tables
JOIN_TYPES | columns of two types are joined | cast one in its table
OVER_A_VIEW | an updatable view over a materialized view | define it on the tables
HIDDEN_KEYS | the view does not show a key, or a column that it joins on | show the column
NO_STATE_DIRECTORY | there is no directory for the state of updates | connect with state=DIR
UNWRITABLE_TABLE | a base table that cannot be written without Spark | use Spark
NEEDS_SPARK | a base table that cannot be read without Spark | use Spark
SELECTION | a WHERE on one table that is not computed in memory, or is never true | write a simpler condition
CHECK_EXPRESSION | a CHECK that is not computed of one row before it is written | write the base table directly
TOO_MUCH | an update that touches too many joins | write the base tables directly
TOO_MANY_ROWS | an update of too many view rows at once | update fewer rows
SIDE_EFFECTS | the update would change other rows of the view | write WITH SIDE EFFECTS ALLOWED
NOT_TRANSLATABLE | no change of the tables makes the update | write the base tables directly
NOT_UPDATABLE | the name is not an updatable view's | name an updatable view
HALF_MADE | an update was begun and not ended, and the record of it is damaged | see what the last commits did, and create the view again
NAMED_TWICE | a statement names a row twice | name it once
ROWS_BECOME_ONE | two rows of the view would become one | write other values
ALREADY_THERE | the view has the row already | insert rows that it does not have
NO_SUCH_ROW | the table or view does not have the row | name a row that it has
COLUMNS | values that do not fit to the view's columns | give one value for each column
ROWS | rows that are given in a way that is not read | give a list of rows or a table
CONTRADICTION | two values for what the view shows twice | give one value
STATEMENT | a part of a statement that would be lost | write INSERT, UPDATE or DELETE without it
CONCURRENT_CHANGE | someone else changed a table meanwhile | try again
MODE | no such mode | write one of the modes that the error lists
KEY | a key that is NULL, or that another row has | give another key
CHECK | a row that would break a constraint | give values that satisfy it
FOREIGN_KEY | a row that would refer to none, or to which others refer | update the other table too
FAILS_WHERE | a row that would not meet the view's WHERE | give values that meet it
NO_NEW_KEY | no new value for a hidden key was found | show the key
""")

MACHINE = _table("""
BAD_VALUE | a value that is out of its range, or of another kind | give a value in the range that the error names
NOT_IN_QUERY | a table that the view or query does not read | name a table that it reads
OPTIONS | options that exclude each other, or are not read | keep one of them
UNREADABLE_FILE | a file or directory that cannot be read or used | name another
NO_SPARK | Java or Spark is not there, or did not start | install what the error names
SPARK | an error of Spark that has no name |
DISK_FULL | the disk is full | make room and try again
READ_ONLY | there is no right to write | get the right, or use another directory
OUT_OF_MEMORY | there was not enough memory | give Spark more
SPARK_ENDED | Spark has ended | connect again
""")

REASONS: Mapping[str, Reason] = {
    **REFRESHES,
    **QUERIES,
    **VIEWS,
    **SAMPLES,
    **SCHEDULES,
    **SYNOPSES,
    **SKETCHES,
    **UPDATES,
    **MACHINE,
}
"""Every reason code."""
