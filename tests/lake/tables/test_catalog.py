"""Names, registration, views and drops; a second process sees what the first one made."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from belvedere.errors import Invalid, Unsupported
from belvedere.lake.offline import VIEW_PROPERTY, OfflineLake
from belvedere.lake.spark_lake import SparkLake, open_directory
from belvedere.lake.tables import catalog, declared_keys
from belvedere.sql.names import stored_name
from tests.lake.tables.feeds import changes

pytestmark = pytest.mark.spark

HARD = 'it\'s "quoted" \\ back\n\t${env:HOME} naïve 😀 token url password `q` ; -- /* \x01 \u2028'


@pytest.mark.soak
def test_two_lakes_in_one_process_do_not_see_each_other(door: SparkLake, tmp_path: Path) -> None:
    other = open_directory(tmp_path / "other lake's")
    door.sql("CREATE TABLE t AS SELECT 1 AS a")
    other.sql("CREATE TABLE t AS SELECT 2 AS a")
    assert door.sql("SELECT a FROM t").collect()[0]["a"] == 1
    assert other.sql("SELECT a FROM t").collect()[0]["a"] == 2
    assert (tmp_path / "other lake's" / "t" / "_delta_log").is_dir()
    other.sql("DROP TABLE t")
    assert (door.names(), other.names()) == (["t"], [])


def test_a_lake_that_was_removed_begins_anew(door: SparkLake) -> None:
    assert door.directory is not None
    door.sql("CREATE TABLE t AS SELECT 1 AS a")
    catalog.create_view(door, "v", "SELECT a FROM t")
    shutil.rmtree(door.directory)
    again = open_directory(door.directory)
    assert (again.names(), again.exists("v"), again.exists("t")) == ([], False, False)
    again.sql("CREATE TABLE t AS SELECT 2 AS b")
    assert again.sql("SELECT b FROM t").collect()[0]["b"] == 2


def test_new_tables_record_changes_and_use_vectors(door: SparkLake) -> None:
    door.sql("CREATE TABLE Mixed (`Größe` INT, `it's` INT, `a``b` INT)")
    table = door.table("MIXED")
    assert table.change_feed
    assert table.properties["delta.enableDeletionVectors"] == "true"
    assert [name for name, _ in table.columns] == ["Größe", "it's", "a`b"]
    assert door.exists("mixed")
    assert not door.exists("mixd")


def test_columns_with_any_characters_have_changes(door: SparkLake) -> None:
    door.sql("CREATE TABLE t (`Größe` INT, `it's` INT, `a``b` INT, `q\"q` INT, LOUD INT)")
    door.sql(
        "CREATE TABLE m (`a b` INT, `x,y` INT) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    door.sql("INSERT INTO t VALUES (1, 2, 3, 4, 5)")
    door.sql("INSERT INTO m VALUES (1, 2)")
    with door.work() as work:
        columns = ["a`b", "it's", "Größe", 'q"q', "LOUD"]
        found = changes(work, door.table("t"), 0, 1, columns)
        assert work.spark.table(found.view()).columns == [*columns, "__m"]
        assert work.spark.table(found.view()).collect() == [(3, 2, 1, 4, 5, 1)]
        found = changes(work, door.table("m"), 0, 1, ["a b"])
        assert work.query(f"SELECT `a b`, __m FROM {found.view()}").collect() == [(1, 1)]


def test_an_unknown_table_gets_the_nearest_name(door: SparkLake) -> None:
    door.sql("CREATE TABLE orders (a INT)")
    with pytest.raises(Invalid, match="did you mean 'orders'"):
        door.table("ordres")


def test_what_is_not_delta_is_refused(door: SparkLake) -> None:
    door.sql("CREATE TABLE p (a INT) USING parquet")
    door.sql("CREATE VIEW w AS SELECT 1 AS a")
    with pytest.raises(Unsupported, match="not a Delta table"):
        door.table("p")
    with pytest.raises(Unsupported, match="is a view"):
        door.table("w")


def test_names_spark_refuses_are_explained(door: SparkLake) -> None:
    with pytest.raises(Invalid, match="letters a-z, digits and _"):
        door.sql("CREATE TABLE `naïve` (a INT)")


def test_views_take_any_name_and_never_a_tables(door: SparkLake) -> None:
    door.sql("CREATE TABLE t AS SELECT 1 AS a")
    for name in ("v", "Select", "my view", "naïve", "x`y", "a.b 日本"):
        catalog.create_view(door, name, "SELECT a AS `the a`, a AS `ü` FROM t")
        catalog.create_view(door, name, "SELECT a AS `the a` FROM t")
        quoted = "`" + name.replace("`", "``") + "`"
        assert door.sql(f"SELECT `the a` FROM {quoted}").collect() == [(1,)]
        catalog.drop_view(door, name)
        with pytest.raises(Invalid):
            door.sql(f"SELECT * FROM {quoted}")
    with pytest.raises(Invalid, match="is a table"):
        catalog.create_view(door, "T", "SELECT 1 AS a")


def test_a_stored_table_carries_any_definition(door: SparkLake) -> None:
    name = stored_name("my view")
    door.sql(f"CREATE TABLE {name} (a INT)")
    door.set_properties(door.table(name), {VIEW_PROPERTY: HARD * 200})
    assert door.stored() == [name]
    assert door.table(name).properties[VIEW_PROPERTY] == HARD * 200
    assert door.names() == []


def test_dropped_tables_do_not_come_back(door: SparkLake) -> None:
    door.sql("CREATE TABLE t AS SELECT 1 AS a")
    assert door.directory is not None
    again = open_directory(door.directory)
    catalog.drop_table(again, "t")
    assert open_directory(door.directory).names() == []
    with pytest.raises(Invalid, match="no table"):
        catalog.drop_table(door, "nothing")


@pytest.mark.soak
def test_a_second_process_reads_and_writes_the_lake(door: SparkLake) -> None:
    door.sql("CREATE TABLE t AS SELECT 1 AS a")
    assert door.directory is not None
    script = f"""
from belvedere.lake.spark_lake import open_directory
door = open_directory({str(door.directory)!r})
assert door.names() == ["t"], door.names()
door.sql("INSERT INTO t VALUES (2)")
door.sql("CREATE TABLE other AS SELECT 5 AS b")
assert door.sql("SELECT count(*) AS n FROM t VERSION AS OF 0").collect()[0]["n"] == 1
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert door.sql("SELECT sum(a) AS n FROM t").collect()[0]["n"] == 3
    assert door.table("other").columns == (("b", "int"),)
    assert door.sql("SELECT b FROM other").collect() == [(5,)]


def test_looking_needs_no_spark(door: SparkLake) -> None:
    door.sql("CREATE TABLE t AS SELECT 1 AS a")
    door.sql("INSERT INTO t VALUES (2)")
    looked_at = OfflineLake(str(door.directory))
    table = looked_at.table("t")
    assert (looked_at.names(), table.version) == (["t"], 1)
    assert [e.operation for e in looked_at.events(table)] == ["WRITE", "CREATE TABLE AS SELECT"]
    script = "import sys, belvedere.lake.offline, belvedere.delta.snapshots, belvedere.delta.stamps; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_keys_are_verified_when_declared(door: SparkLake) -> None:
    door.sql("CREATE TABLE parent (id INT, `a``b` STRING)")
    door.sql("CREATE TABLE child (pid INT, n INT)")
    door.sql("INSERT INTO parent VALUES (1, 'x'), (2, 'x')")
    door.sql("INSERT INTO child VALUES (1, 1), (NULL, 2), (2, 3)")
    assert declared_keys.key_of(declared_keys.declare_key(door, "parent", ["ID"])) == ("id",)
    child = declared_keys.declare_foreign_key(door, "child", ["pid"], "parent", ["id"])
    assert declared_keys.foreign_keys(child) == (
        declared_keys.ForeignKey(("pid",), "parent", ("id",)),
    )
    with pytest.raises(Invalid, match=r"\('x',\)"):
        declared_keys.declare_key(door, "parent", ["a`b"])
    with pytest.raises(Invalid, match="NULL"):
        declared_keys.declare_key(door, "child", ["pid"])
    with pytest.raises(Invalid, match=r"without a row there: \(3,\)"):
        declared_keys.declare_foreign_key(door, "child", ["n"], "parent", ["id"])
    with pytest.raises(Invalid, match="no column 'nope'"):
        declared_keys.declare_key(door, "child", ["nope"])
