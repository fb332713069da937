"""Texts of any size, depth and digits are answered or refused by an error of ours; lengths are no depth."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb

ROWS = {"a": [1.0, 2.0], "b": [3.0, 4.0], "s": ["w1", "w501"]}
DIGITS = "1" * 5000
SQL = (
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY {by} DESC) AS rn "
    "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '{minutes}' MINUTES)) WHERE {where}) WHERE rn <= {k}"
)
RSPQL = """PREFIX : <http://x/>
REGISTER STREAM :q AS SELECT ?u FROM NAMED WINDOW :w ON :s [RANGE PT9M STEP PT3M]
WHERE {{ WINDOW :w {{ {pattern} }} }} ORDER BY DESC({by}) LIMIT {k}"""


def scores(by):
    return sb.run(sb.TopK(k=2, by=by, window=sb.Counting(2, 2)), ROWS)["score"].to_pylist()


def sql(**given):
    return SQL.format(**{"by": "a", "minutes": "1", "where": "a > 0", "k": "3", **given})


def rspql(**given):
    return RSPQL.format(**{"pattern": "?u :mentions ?m", "by": "?m", "k": "3", **given})


@pytest.mark.parametrize(
    ("by", "answer"),
    [
        ("+".join(["a"] * 500), [1000.0, 500.0]),
        ("*".join(["a"] * 500), [2.0**499 * 2, 1.0]),
        ("CASE WHEN a IN (" + ",".join(map(str, range(2, 502))) + ") THEN b END", [4.0]),
        ("CASE WHEN s IN (" + ",".join(f"'w{i}'" for i in range(500)) + ") THEN b END", [3.0]),
        ("CASE WHEN " + " AND ".join(["a > 0"] * 500) + " THEN a END", [2.0, 1.0]),
        ("CASE WHEN " + " OR ".join(["a > 1"] * 500) + " THEN a END", [2.0]),
        ("CASE " + "WHEN a > 9 THEN 1 " * 500 + "ELSE b END", [4.0, 3.0]),
        ("least(" + ",".join(["a"] * 500) + ")", [2.0, 1.0]),
        ("(" * 30 + "a" + ")" * 30, [2.0, 1.0]),
        (f"a + 0.{DIGITS}", [2 + 1 / 9, 1 + 1 / 9]),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "",
)
def test_long_expressions_are_answered(by, answer):
    assert scores(by) == pytest.approx(answer)


@pytest.mark.parametrize(
    "by",
    [
        f"a + {DIGITS}", f"a + {DIGITS}.0", f"a + 1e{DIGITS}", f"round(a, {DIGITS})",
        "(" * 100_000 + "a" + ")" * 100_000, "(" * 100_000, "abs(" * 20_000 + "a" + ")" * 20_000, "-" * 100_000 + "a",
        "- " * 20_000 + "a", "CASE WHEN " + "NOT " * 20_000 + "a > 1 THEN 1 END",
        "CASE WHEN a > 0 THEN " * 2_000 + "1" + " END" * 2_000, "CASE WHEN a" + " IS NULL" * 2_000 + " THEN 1 END",
        "a" + "::int" * 2_000, "CASE WHEN " + " = ".join(["a"] * 2_000) + " THEN 1 END", "+".join(["a"] * 30_000),
        " ** ".join(["a"] * 2_000), ".".join(["a"] * 2_000), "a" + "[0]" * 2_000, "'" * 10_001, "/*" * 10_000,
        "a = '\ud800'",
    ],
    ids=lambda by: by[:12].encode("ascii", "replace").decode(),
)  # fmt: skip
def test_deep_expressions_are_refused_in_a_short_message(by):
    with pytest.raises(sb.QueryError) as caught:
        scores(by)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000, "{a: " * 100_000, "\n".join(" " * i + "a:" for i in range(500)), "- " * 20_000 + "a",
        f"k: {DIGITS}\nby: a\nwindow: {{rows: 3}}", f"k: 1\nby: a\nwindow: {{rows: {DIGITS}}}",
        f"k: 1\nby: a\ntime: t\nwindow: {{size: {DIGITS} s}}", 'k: "\\UFFFFFFFF"', 'k: "\\ud800"',
        "k: 1\nby: a\nwindow: {rows: 3}\nname: \ud800",
    ],
    ids=lambda text: text[:12].encode("ascii", "replace").decode(),
)  # fmt: skip
def test_deep_yaml_is_refused_at_its_place(text):
    with pytest.raises(sb.ParseError) as caught:
        sb.parse(text, language="yaml")
    assert caught.value.line >= 1


def test_long_sql_is_read():
    query = sb.parse(sql(by="+".join(["a"] * 500), where=f"a IN ({','.join(map(str, range(500)))})")).query
    assert query.k == 3
    assert query.by.columns == ("a",)


@pytest.mark.parametrize(
    "text",
    [sql(k=DIGITS), sql(minutes=DIGITS), sql(by="(" * 20_000 + "a" + ")" * 20_000), "SELECT * FROM (" * 5_000],
    ids=["k", "minutes", "brackets", "selects"],
)
def test_deep_sql_is_refused(text):
    with pytest.raises(sb.ParseError):
        sb.parse(text, language="sql")


@pytest.mark.parametrize(
    "given",
    [
        {"by": "+".join(["?m"] * 20_000)},
        {"by": f"IF(?m IN ({','.join(map(str, range(5_000)))}), 1, 2)"},
        {"pattern": " . ".join(["?u :mentions ?m", *(f"?u :p{i} ?v{i}" for i in range(5_000))])},
    ],
    ids=["sum", "in", "triples"],
)
def test_long_rspql_is_read(given):
    assert sb.parse(rspql(**given), language="rspql", time="t").query.k == 3


@pytest.mark.parametrize(
    "given",
    [
        {"k": DIGITS},
        {"by": f"?m + {DIGITS}"},
        {"by": "(" * 20_000 + "?m" + ")" * 20_000},
        {"by": "IF(" + "!" * 20_000 + "?m, 1, 2)"},
        {"by": "ABS(" * 5_000 + "?m" + ")" * 5_000},
        {"by": "IF(" + " && ".join(["?m > 0"] * 20_000) + ", 1, 2)"},
        {"pattern": "{" * 20_000},
        {"pattern": " UNION ".join(["{ ?u :a ?m }"] * 2_000)},
    ],
    ids=["k", "number", "brackets", "not", "calls", "and", "groups", "unions"],
)
def test_deep_rspql_is_refused(given):
    with pytest.raises(sb.ParseError):
        sb.parse(rspql(**given), language="rspql", time="t")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux")
def test_files_whose_names_are_not_utf8_are_read_or_refused(tmp_path):
    folder = os.fsencode(tmp_path)
    path = os.fsdecode(folder + b"/rows\xff.parquet")
    pq.write_table(pa.table({"id": [1, 2], "a": [1.0, 2.0]}), pa.OSFile(os.fsencode(path), "wb"))
    query = sb.TopK(k=1, by="a", window=sb.Counting(2, 2))
    with pytest.raises(sb.SourceError, match="rename"):
        sb.run(query, path)
    with pytest.raises(sb.TableError, match="rename"):
        sb.tables.open_table(path, key="id")
    text = folder + b"/query\xff.yaml"
    Path(os.fsdecode(text)).write_text("k: 1\nby: a\nwindow: {rows: 3}\n")
    command = [sys.executable, "-m", "skyband", "parse"]
    found = subprocess.run([*command, text], capture_output=True, check=True, timeout=120)
    assert b"k: 1" in found.stdout
    missing = subprocess.run([*command, folder + b"/none\xff.yaml"], capture_output=True, check=False, timeout=120)
    assert missing.returncode == 3
    assert b"Traceback" not in missing.stderr
