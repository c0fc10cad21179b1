"""Questions answered without Spark: definitions from a directory, rows from DuckDB."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from belvedere.algebra.hashing import bound, digest
from belvedere.algebra.relations import Change, Rel, Scan
from belvedere.algebra.walks import tables
from belvedere.errors import BelvedereError
from belvedere.lake.offline import OfflineLake
from belvedere.samples.answers.evaluate import EvaluatedQuestion, evaluate
from belvedere.samples.answers.questions import Question, parse_question
from belvedere.samples.answers.select_rows import correct_rows
from belvedere.samples.create import plan_outliers, plan_sample, samples_of
from belvedere.samples.estimators.smooth import Method
from belvedere.samples.outlier_upkeep import is_within_size
from belvedere.sql.render import render
from belvedere.sql.statements.samples import CreateSample, Index
from belvedere.views.catalog import the_view
from belvedere.views.maintenance import stored_rows_query
from belvedere.views.sampling import Bounds, Sampling, indexed_column
from tests import small_lake

QUERY = (
    "SELECT v.video_id, owner, count(*) AS n, sum(bytes) AS bytes FROM log l"
    " JOIN video v ON l.video_id = v.video_id GROUP BY v.video_id, owner"
)
COLUMNS = {"video_id": "bigint", "owner": "string", "n": "bigint", "bytes": "bigint"}
TOP = "SELECT video_id, bytes FROM log ORDER BY bytes DESC LIMIT 3"


class Small:
    """A view that is behind, and its sample that is not."""

    def __init__(
        self,
        directory: Path,
        by: tuple[str, ...] = (),
        ratio: float = 0.5,
        outliers: Index | None = None,
    ) -> None:
        small_lake.make(directory)
        small_lake.view(directory, "visits", QUERY, COLUMNS, ["log", "video"])
        small_lake.view(directory, "top", TOP, {"video_id": "bigint", "bytes": "bigint"}, ["log"])
        counts = "SELECT video_id, count(*) AS n FROM log GROUP BY video_id"
        small_lake.view(directory, "counts", counts, {"video_id": "bigint", "n": "bigint"}, ["log"])
        self.shelf = OfflineLake(directory)
        view = the_view(self.shelf, "visits")
        statement = CreateSample("visits", ratio, by=by, outliers=outliers)
        made = plan_sample(self.shelf, view, statement)  # type: ignore[arg-type]
        for of in made:
            stamp = small_lake.stamp(directory, of.definition.id, 1, ["log", "video"])
            small_lake.store(directory, of.name, of.definition.to_json(), stamp)
        self.duck = duckdb.connect()
        self._tables()
        for stored, state, when in (
            (view.stored, view.state, "old"),
            *((of.stored, of.state, "new") for of in made),
        ):
            query = stored_rows_query(state, lambda leaf, w=when: exp.to_table(f"{leaf.table}_{w}"))
            self.duck.execute(f'CREATE TABLE "{stored}" AS {query.sql("duckdb")}')

    def _tables(self) -> None:
        run = self.duck.execute
        run(
            "CREATE TABLE video_old AS SELECT i AS video_id, 'o' || (i % 3) AS owner FROM range(900) t(i)"
        )
        run("CREATE TABLE video_new AS FROM video_old")
        run("INSERT INTO video_new SELECT 900 + i, 'new' FROM range(40) t(i)")
        run(
            "CREATE TABLE log_old AS SELECT (hash(i) % 900)::BIGINT AS video_id, (i * 7) % 1000 AS bytes FROM range(9000) t(i)"
        )
        run("CREATE TABLE log_new AS SELECT * FROM log_old WHERE video_id % 17 > 0")
        run(
            "INSERT INTO log_new SELECT (hash(i + 5) % 940)::BIGINT, (i * 13) % 900 FROM range(3000) t(i)"
        )

    def collect(self, plan: Rel) -> pa.Table:
        def source(leaf: Scan | Change) -> exp.Table:
            stored = leaf.table.startswith("__bv")
            return exp.to_table(leaf.table if stored else f"{leaf.table}_new", dialect="duckdb")

        return self.duck.execute(render(plan, source).sql("duckdb")).to_arrow_table()

    def ask(self, text: str) -> Question:
        return parse_question(self.shelf, text)

    def answer(
        self, text: str, method: Method = Method.AUTO, level: float = 0.99
    ) -> EvaluatedQuestion:
        return evaluate(self.ask(text), self.collect, level, method)

    def truth(self, text: str) -> list[tuple[object, ...]]:
        fresh = QUERY.replace("log l", "log_new l").replace("video v", "video_new v")
        return self.duck.execute(text.replace("visits", f"({fresh})")).fetchall()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return Small(tmp_path_factory.mktemp("lake"))


def test_the_stored_sample_is_of_the_hashed_keys(small: Small) -> None:
    (sample,) = samples_of(small.shelf, "visits")
    sampling = sample.definition.sampling
    assert sampling is not None
    # No key of video is declared, so that its owner may not follow from its number.
    assert len(sampling.key) == 2
    kept = set(small.duck.execute(f'SELECT video_id_2, owner FROM "{sample.stored}"').fetchall())
    every = small.truth("SELECT video_id, owner FROM visits")
    assert kept == {r for r in every if digest(r, 0) < bound(0.5)}


@pytest.mark.parametrize("method", [Method.AQP, Method.CORR, Method.AUTO])
def test_groups_predicates_and_expressions_are_estimated(small: Small, method: Method) -> None:
    text = (
        "SELECT owner, sum(bytes) AS b, count(*) AS c, avg(n) AS a, sum(bytes) / sum(n) AS r,"
        " sum(CASE WHEN n > 12 THEN 1 ELSE 0 END) AS m FROM visits WHERE n > 3 GROUP BY owner"
    )
    found = small.answer(text, method)
    truth = {r[0]: r[1:] for r in small.truth(text)}
    owners = found.data.keys["owner"].take(pa.array(found.order)).to_pylist()
    assert set(owners) == set(truth)
    inside = [
        c.low[i] <= float(truth[owner][j]) <= c.high[i]  # type: ignore[arg-type]
        for j, c in enumerate(found.columns)
        for i, owner in enumerate(owners)
        if not np.isnan(c.low[i])
    ]
    assert len(inside) >= 12
    assert np.mean(inside) >= 0.9
    if method is not Method.AQP:
        assert found.notes[owners.index("new")] == "new: not in the stale view"
    if method is not Method.AUTO:
        assert {m for c in found.columns for m in c.method} == {method.value}


def test_corrections_start_from_the_stale_answer_and_are_narrower(small: Small) -> None:
    text = "SELECT sum(bytes) AS b FROM visits"
    aqp, corr = (small.answer(text, m).columns[0] for m in (Method.AQP, Method.CORR))
    assert corr.stale[0] == small.collect(small.ask(text).bound.plan)["b"][0].as_py()
    assert corr.high[0] - corr.low[0] < aqp.high[0] - aqp.low[0]


def test_sampling_alone_reads_one_row_of_extremes_for_each_group_of_the_stale_view(
    small: Small,
) -> None:
    read = dict[str, int]()

    def collect(plan: Rel) -> pa.Table:
        found = small.collect(plan)
        for table in tables(plan):
            read[table] = read.get(table, 0) + found.num_rows
        return found

    question = small.ask("SELECT owner, avg(n) AS a, median(n) AS m FROM visits GROUP BY owner")
    found = evaluate(question, collect, 0.95, Method.AQP)
    assert len(found.order) == 4
    assert read.pop("__bv_visits") == 3
    assert set(read) == {"__bv_visits_sample"}
    read.clear()
    question = small.ask("SELECT owner, median(n) AS m FROM visits GROUP BY owner")
    evaluate(question, collect, 0.95, Method.AQP)
    assert set(read) == {"__bv_visits_sample"}


def test_ranks_ends_and_spreads_are_estimated(small: Small) -> None:
    text = "SELECT median(n) AS m, percentile(bytes, 0.9) AS p, max(n) AS x, min(n) AS i, stddev(bytes) AS s FROM visits"
    found = {c.name: c for c in small.answer(text).columns}
    values = [float(r[0]) for r in small.truth("SELECT n FROM visits")]  # type: ignore[arg-type]
    assert found["m"].low[0] <= np.median(values) <= found["m"].high[0]
    assert found["x"].low[0] <= max(values)
    assert found["i"].high[0] >= min(values)
    spread = small.truth("SELECT stddev_samp(bytes), quantile_disc(bytes, 0.9) FROM visits")[0]
    assert found["s"].low[0] <= float(spread[0]) <= found["s"].high[0]  # type: ignore[arg-type]
    assert found["p"].low[0] <= float(spread[1]) <= found["p"].high[0]  # type: ignore[arg-type]


def test_quantiles_of_a_sample_of_everything_are_those_of_the_view(tmp_path: Path) -> None:
    small = Small(tmp_path / "lake", ratio=1.0)
    asked = "SELECT median(bytes) AS m, percentile(bytes, 0.3) AS p FROM visits"
    found = {c.name: c for c in small.answer(asked).columns}
    (truth,) = small.truth("SELECT median(bytes), quantile_cont(bytes, 0.3) FROM visits")
    for name, wanted in zip("mp", truth, strict=True):
        ends = found[name].value[0], found[name].low[0], found[name].high[0]
        assert ends == pytest.approx([float(wanted)] * 3), name  # type: ignore[arg-type]
        assert found[name].notes == [""]


def test_rows_of_outlier_keys_are_not_among_those_that_may_be_missed(tmp_path: Path) -> None:
    small = Small(tmp_path / "lake", outliers=Index("ABOVE", 800, "log", "bytes"))
    found = small.answer("SELECT sum(bytes) AS b FROM visits").data
    assert found.extremes is not None
    largest = found.extremes.row(np.array([[0.0, 1.0]]))[0]
    kept = """SELECT max(__s2) FROM "__bv_visits"
        WHERE video_id_2 NOT IN (SELECT video_id_2 FROM "__bv_visits_outliers")"""
    every = 'SELECT max(__s2) FROM "__bv_visits"'
    (wanted,), (most,) = (small.duck.execute(q).fetchone() or (0,) for q in (kept, every))
    assert largest == float(wanted) < float(most)


def test_keys_that_stand_for_many_rows_are_noted_by_their_share(tmp_path: Path) -> None:
    small = Small(tmp_path / "lake", by=("owner",))
    sheet = small.answer("SELECT sum(n) AS s, median(n) AS m FROM visits").data
    assert sheet.extremes is not None
    assert sheet.extremes.unit is not None
    rows = np.array(
        [
            r[0]
            for r in small.duck.execute(
                'SELECT count(*) FROM "__bv_visits" GROUP BY owner'
            ).fetchall()
        ],
        float,
    )
    assert sheet.extremes.unit[0, 0] == pytest.approx((rows**2).max() / (rows**2).sum())


def test_having_and_limits_are_of_the_estimates(small: Small) -> None:
    every = small.answer("SELECT owner, sum(n) AS s FROM visits GROUP BY owner")
    assert len(every.order) == 4
    most = small.answer(
        "SELECT owner, sum(n) AS s FROM visits GROUP BY owner HAVING count(*) > 100"
    )
    assert len(most.order) == 3
    assert not any("HAVING" in note for note in most.notes)
    sums = every.columns[0]
    near = float(np.sort(sums.value)[1]) - 1
    close = small.answer(
        f"SELECT owner, sum(n) AS s FROM visits GROUP BY owner HAVING sum(n) > {near}"
    )
    assert len(close.order) == 3
    assert any("HAVING holds for the estimate" in note for note in close.notes)
    best = small.answer(
        "SELECT owner, sum(n) AS s FROM visits GROUP BY owner ORDER BY s DESC LIMIT 2"
    )
    assert list(best.columns[0].value) == sorted(every.columns[0].value)[::-1][:2]


def test_other_tables_are_joined_whole(small: Small) -> None:
    text = "SELECT count(*) AS c FROM visits s JOIN log l ON s.video_id = l.video_id WHERE l.bytes < 100"
    column = small.answer(text).columns[0]
    fresh = text.replace(
        "visits s", f"({QUERY.replace('log l', 'log_new l').replace('video v', 'video_new v')}) s"
    ).replace("JOIN log l ON s", "JOIN log_new l ON s")
    (truth,) = small.duck.execute(fresh).fetchone() or (0,)
    assert column.low[0] <= truth <= column.high[0]


def test_the_size_of_a_sample_varies_by_what_is_sampled_together(tmp_path: Path) -> None:
    small = Small(tmp_path / "lake", by=("owner",))
    sheet = small.answer("SELECT sum(n) AS s FROM visits").data
    sizes = np.bincount(sheet.fresh.unit)
    assert sheet.size_deviation == pytest.approx(np.sqrt(0.5 * (sizes.astype(float) ** 2).sum()))
    assert sheet.size_deviation > 10 * np.sqrt(0.5 * 0.5 * 900)


def test_a_select_has_fresh_rows_of_sampled_keys_and_counts_the_rest(small: Small) -> None:
    found = correct_rows(
        small.ask("SELECT video_id, n FROM visits WHERE n > 8"), small.collect, 0.99
    )
    have = {tuple(r.values()) for r in found.rows.to_pylist()}
    every = small.truth("SELECT video_id, owner, n FROM visits WHERE n > 8")
    assert {(v, n) for v, o, n in every if digest([v, o], 0) < bound(0.5)} <= have
    stale = small.collect(small.ask("SELECT video_id, n FROM visits WHERE n > 8").bound.plan)
    old = dict(zip(*(stale[c].to_pylist() for c in stale.column_names), strict=True))
    new = {v: n for v, _, n in every}
    truth = {
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "updated": sum(old[v] != new[v] for v in old.keys() & new.keys()),
    }
    for kind, count in truth.items():
        counted = found.counts[kind]
        assert counted.low[0] <= count <= counted.high[0], (kind, counted)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT sum(n) FROM top", "'top' has no sample|no column"),
        ("SELECT sum(bytes) FROM top", "'top' has no sample"),
        ("SELECT sum(bytes) FROM log", "no materialized view"),
        ("SELECT sum(a.n) FROM visits a JOIN visits b ON a.n = b.n", "two samples"),
        ("SELECT sum(m) FROM (SELECT max(n) AS m FROM visits GROUP BY owner)", "GROUP BY"),
        ("SELECT count(*) FROM log l LEFT JOIN visits v ON l.video_id = v.video_id", "left join"),
        ("SELECT count(*) FROM (SELECT DISTINCT owner FROM visits)", "DISTINCT"),
        ("SELECT count(DISTINCT owner) FROM visits", "distinct owner"),
        ("SELECT corr(n, bytes) FROM visits", "corr"),
        ("SELECT count(*) FROM (SELECT n FROM visits ORDER BY n LIMIT 9)", "LIMIT"),
    ],
)
def test_what_cannot_be_estimated_is_refused(small: Small, text: str, why: str) -> None:
    with pytest.raises(BelvedereError, match=why):
        small.ask(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT sum(n) + median(n) AS x FROM visits", "by themselves"),
        ("SELECT abs(sum(n)) AS x FROM visits", "over aggregates"),
        ("SELECT percentile(n, 2) AS x FROM visits", "between 0 and 1"),
    ],
)
def test_expressions_that_cannot_be_estimated_are_refused(
    small: Small, text: str, why: str
) -> None:
    with pytest.raises(BelvedereError) as refused:
        small.answer(text)
    assert why in str(refused.value)


def test_an_index_on_a_column_that_the_view_does_not_read_finds_its_keys(small: Small) -> None:
    view = the_view(small.shelf, "counts")
    statement = CreateSample("counts", 0.5, outliers=Index("ABOVE", 980, "log", "bytes"))
    sample, outliers = plan_sample(small.shelf, view, statement)  # type: ignore[arg-type]
    assert (sample.name, outliers.name) == ("counts_sample", "counts_outliers")
    # The type is the table's own: another would look like a change of the schema.
    assert outliers.used("log")["bytes"] == "bigint"
    query = stored_rows_query(outliers.state, lambda leaf: exp.to_table(f"{leaf.table}_new"))
    found = small.duck.execute(f"SELECT video_id, __n FROM ({query.sql('duckdb')})").fetchall()
    wanted = small.duck.execute(
        "SELECT video_id, count(*) FROM log_new GROUP BY video_id HAVING max(bytes) >= 980"
    )
    assert sorted(found) == sorted(wanted.fetchall())
    assert len(found) > 5


@pytest.mark.parametrize(
    ("view", "statement", "why"),
    [
        ("visits", CreateSample("visits", 0.1, by=("n",)), "stored unchanged|cannot identify"),
        ("visits", CreateSample("visits", 0.1, by=("nothing",)), "no column 'nothing'"),
        ("top", CreateSample("top", 0.1), "LIMIT"),
    ],
)
def test_views_that_cannot_be_sampled_are_refused(
    small: Small, view: str, statement: CreateSample, why: str
) -> None:
    with pytest.raises(BelvedereError, match=why):
        plan_sample(small.shelf, the_view(small.shelf, view), statement)  # type: ignore[arg-type]


def test_the_records_of_an_index_are_kept_apart_and_lead_to_the_same_outliers(small: Small) -> None:
    view = the_view(small.shelf, "visits")
    bounds = (Bounds("bytes", None, 985.0, "bigint"),)
    sampling = Sampling("visits", ("owner", "video_id_2"), True, 0.5, 0, "log", bounds)
    sampling = replace(sampling, index=Index("TOP", 20, "log", "bytes"), most=40)
    outliers = plan_outliers(small.shelf, view, sampling)  # type: ignore[arg-type]
    (part,) = outliers.every_part
    assert indexed_column(part.plan, sampling)

    def source(leaf: Scan | Change) -> exp.Table:
        stored = leaf.table.startswith("__bv")
        return exp.to_table(leaf.table if stored else f"{leaf.table}_new", dialect="duckdb")

    for made in (part, outliers):
        query = stored_rows_query(made.state, source).sql("duckdb")
        small.duck.execute(f'CREATE TABLE "{made.stored}" AS {query}')
    (counted,) = small.duck.execute(f'SELECT count(*) FROM "{part.stored}"').fetchone() or ()
    large = small.duck.execute("SELECT count(*) FROM log_new WHERE bytes >= 985").fetchone()
    assert (counted,) == large
    kept = small.duck.execute(f'SELECT video_id_2 FROM "{outliers.stored}"').fetchall()
    wanted = small.truth(
        "SELECT video_id FROM visits WHERE video_id IN (SELECT video_id FROM log_new WHERE bytes >= 985)"
    )
    assert sorted(kept) == sorted(wanted)
    assert len(kept) > 20


def test_a_top_k_is_set_anew_when_too_few_or_far_too_many_are_beyond_it() -> None:
    index = Index("TOP", 20, "log", "bytes")
    sampling = Sampling("v", ("k",), True, 0.1, 0, "log", index=index, most=40)
    assert [is_within_size(sampling, n) for n in (19, 20, 30, 40, 41)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert Sampling.from_dict(sampling.to_dict()) == sampling
