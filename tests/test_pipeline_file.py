"""Pipeline files: read into values, or refused with the place and what to write instead."""

import contextlib
import pickle
from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.errors import ParseError
from skyband.lang import Job, load
from skyband.lang.config import Cluster, Input, Output, Trigger, Watermark
from skyband.lang.text import EnvTemplate

WHOLE = """\
name: trades
source: {kind: json, path: "in/${DIR}", schema: "ts timestamp, symbol string, price double, volume int",
         options: {maxFilesPerTrigger: 1, secret: "${KEY:-none}"}}
watermark: {column: ts, delay: "10 seconds"}
ahead_of_clock: 1 hour
query:
  k: 10
  by: price * volume
  window: {size: 10 minutes, slide: 1 minute}
  time: ts
  per: [symbol]
early: true
sink: {kind: latest, url: "sqlite:///${DB}", table: leaders}
checkpoint: state/trades
trigger: {every: 5 seconds}
spark: {master: "local[2]", settings: {spark.sql.shuffle.partitions: 2}}
"""


def test_a_file_becomes_values(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text(WHOLE, encoding="utf-8")
    job = load(path)
    assert job == load(WHOLE)
    assert job.name == "trades"
    assert job.source == Input(
        "json",
        path=EnvTemplate("in/${DIR}"),
        schema="ts timestamp, symbol string, price double, volume int",
        options=(("maxFilesPerTrigger", EnvTemplate("1")), ("secret", EnvTemplate("${KEY:-none}"))),
    )
    assert job.source.columns == ("ts", "symbol", "price", "volume")
    assert job.queries == (
        sb.TopK(k=10, by="price * volume", window=sb.Sliding("10 minutes", "1 minute"), time="ts", per="symbol"),
    )
    assert job.watermark == Watermark("ts", "10 seconds")
    assert (job.ahead_of_clock, job.early, job.checkpoint) == ("1 hour", True, EnvTemplate("state/trades"))
    assert job.sink == Output("latest", url=EnvTemplate("sqlite:///${DB}"), table="leaders")
    assert job.trigger == Trigger("every", "5 seconds")
    assert job.spark == Cluster(EnvTemplate("local[2]"), (("spark.sql.shuffle.partitions", EnvTemplate("2")),))
    assert pickle.loads(pickle.dumps(job)) == job  # noqa: S301
    assert hash(job) == hash(load(WHOLE))


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "kafka", "rate"])
def test_only_sources_that_can_let_time_go_on_take_idle(kind):
    """Spark's own sources cannot: a file that sets it is refused, not run without it."""
    needs = {"kafka": ", url: h, topic: t", "rate": ""}.get(kind, ", path: in/")
    schema = "" if kind == "rate" else ', schema: "ts timestamp, value long"'
    time = "timestamp" if kind == "rate" else "ts"
    text = f"""
source: {{kind: {kind}{needs}{schema}}}
watermark: 10 s
query: {{k: 1, by: value, window: 1 minute, time: {time}}}
"""
    assert load(text).source.idle is None
    with pytest.raises(ParseError, match=rf"source: idle .* kind: {kind}.*redis and mqtt"):
        load(text.replace(f"kind: {kind}", f"kind: {kind}, idle: 30 s"))
    redis = f'source: {{kind: redis, url: h, topic: t, idle: 30 s, schema: "{time} timestamp, value long"}}'
    assert load("\n".join([redis, *text.splitlines()[2:]])).source.idle == "30 seconds"


def test_variables_are_filled_late_and_never_shown(monkeypatch):
    job = load(WHOLE)
    monkeypatch.setenv("DB", "s3cret")
    assert job.sink.url.get() == "sqlite:///s3cret"
    assert "s3cret" not in f"{job} {job!r} {job.sink.url}"
    assert job.source.settings({"KEY": "x"}) == {"maxFilesPerTrigger": "1", "secret": "x"}
    assert job.source.settings({}) == {"maxFilesPerTrigger": "1", "secret": "none"}
    with pytest.raises(ParseError, match="line 2, column 28: the environment variable DIR must be set: set it"):
        job.source.path.get({})
    assert EnvTemplate("$$5 and ${A}").get({"A": "$$"}) == "$5 and $$"
    assert EnvTemplate("a ${A} $$ ${B:-x}").variables == {"A": None, "B": "x"}


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "says"),
    [
        ("k: 10", "k: 0", 7, 6, "query: k must be an integer from 1 to 1,000,000, got 0"),
        ("k: 10", "k: ten", 7, 6, "query.k must be an integer of at least 1, got 'ten'"),
        ("k: 10", "k: '10'", 7, 6, "query.k must be an integer of at least 1, got '10'"),
        ("  k: 10\n", "", 7, 3, "query must have k: add k: ..."),
        ("  window", "  widow", 9, 3, "query.widow is unknown: did you mean window"),
        ("10 minutes", "10 minuets", 9, 18, "query.window: size must be a duration, got '10 minuets'"),
        ("slide: 1 minute", "slide: 1 hour", 9, 37, "slide must be at most size='10 minutes', got '1 hour'"),
        ("slide: 1 minute", "every: 5", 9, 11, "query.window must be a window such as {size: 10 minutes,"),
        ("k: 10", "k: ${K}", 7, 6, "query.k must be an integer of at least 1, got '${K}'"),
        ("table: leaders", "table: '${T}'", 13, 53, "sink.table must be a text without ${...}, which is filled"),
        ("by: price", "by: pirce", 8, 7, "query.by names column 'pirce', which source.schema does not have: did you"),
        ("price * volume", "reflect('x')", 8, 7, "REFLECT is not allowed in a score"),
        ("time: ts", "time: [ts]", 10, 9, "query.time must be the name of a column, got a list"),
        ("time: ts", "time: tz", 10, 9, "query.time names column 'tz'"),
        ("[symbol]", "[symbol, symbol]", 11, 8, "per must name each column once, got ['symbol', 'symbol']"),
        ("kind: json", "kind: jsn", 2, 16, "source: kind must be one of 'parquet', 'json', 'csv',"),
        ("ts timestamp", "ts timestmp", 2, 49, "source: schema must be columns and types, got 'ts timestmp,"),
        ('path: "in/${DIR}", ', "", 2, 9, "source: path must be given with kind: json, got None"),
        ("in/${DIR}", "in/${}", 2, 28, "${} must name an environment variable: write ${PASSWORD},"),
        ("delay:", "dely:", 4, 25, "watermark.dely is unknown: did you mean delay"),
        ("column: ts,", "column: price,", 4, 12, "watermark must be on the time column 'ts' of the query, got"),
        ('watermark: {column: ts, delay: "10 seconds"}', "", 1, 1, "the file must have a watermark, without which"),
        ("10 seconds", "-10 seconds", 4, 32, "watermark.delay must be a duration of at least 0 s, got '-10 seconds'"),
        ("1 hour", "soon", 5, 17, "ahead_of_clock must be a duration, got 'soon'"),
        ("early: true", "early: yes", 12, 8, "early must be true or false, got 'yes'"),
        ("early: true", "sql: SELECT 1", 12, 6, "sql must not stand beside query: keep one; queries: [...]"),
        ("kind: latest", "kind: parquet", 13, 7, "sink: path must be given with kind: parquet, got None"),
        ("kind: latest", "kind: console", 13, 28, "sink: url must be left out with kind: console"),
        (", table: leaders", "", 13, 7, "sink: table must be given with kind: latest, got None"),
        ("table: leaders", "table: &a leaders", 13, 53, "& and * are not supported: write the value itself, or put"),
        ("table: leaders", "table: !!python/name:os.system x", 13, 53, "the tag"),
        ("every: 5 seconds", "every: 5 parsecs", 15, 18, "trigger.every must be a duration, got '5 parsecs'"),
        ("{every: 5 seconds}", "sometimes", 15, 10, "trigger must be {every: 5 seconds}, {available_now: true}"),
        ("{every: 5 seconds}", "{every: 5 s, once: true}", 15, 10, "trigger must be one of {every: 5 seconds},"),
        ("ahead_of_clock: 1 hour", "name: again", 5, 1, "name must be given once: leave one out"),
        ("ahead_of_clock: 1 hour", "ahead_of_clock: [1 hour", 6, 6, "this is not YAML: expected ',' or ']', but got"),
        ("by: price", "by: a: price", 8, 8, "this is not YAML: mapping values are not allowed here: put"),
        ("settings: {", "settings: {a: [1], ", 16, 43, "spark.settings.a must be a value, got a list"),
        ("ahead_of_clock: 1 hour", "---", 5, 1, "a second document begins here"),
        ("ahead_of_clock: 1 hour", "ahead_of_clock: " + "[" * 30 + "]" * 30, 5, 36, "nested too deeply"),
        ("ahead_of_clock: 1 hour", "ahead: 90 s", 5, 8, "write ahead_of_clock: 90 seconds"),
        ("options: {max", "idle: 30 s, options: {max", 3, 16, "source: idle must be left out with kind: json;"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(old, new, line, column, says):
    assert old in WHOLE
    with pytest.raises(ParseError) as caught:
        load(WHOLE.replace(old, new, 1))
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column), str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_names_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.yaml").write_text("source: {kind: parqet}", encoding="utf-8")
    with pytest.raises(
        ParseError, match=r"^pipeline\.yaml:1:16: source: kind must be one of .* got 'parqet': did you mean 'parquet'"
    ):
        load("pipeline.yaml")
    with pytest.raises(sb.SourceError, match=r"'nowhere\.yaml' cannot be read: No such file.*`skyband init`"):
        load("nowhere.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    with pytest.raises(sb.SourceError, match="save it as UTF-8"):
        load("latin.yaml")
    with pytest.raises(ParseError, match="the file is empty: `skyband init`"):
        load("# nothing\n")


SOURCE = "source: {kind: rate}\nwatermark: 5 s\nquery: {k: 1, by: value, window: 1 minute, time: timestamp}\n"


def test_a_pipeline_file_is_no_query():
    with pytest.raises(ParseError, match=r"must be a query, got a whole pipeline file: .*skyband\.lang\.load"):
        sb.parse(SOURCE)


def test_short_forms():
    job = load(SOURCE + "sink: memory\ntrigger: once\n")
    assert job.watermark == Watermark("timestamp", "5 seconds")
    assert job.sink == Output("memory", table="skyband")
    assert job.trigger == Trigger("once")
    assert job.queries[0].window == sb.Tumbling("1 minute")
    assert load(SOURCE + "trigger: {available_now: true}").trigger == Trigger("available_now")
    assert load(SOURCE).sink.kind == "console"
    rows = "source: {kind: parquet, path: x}\nquery: {k: 1, by: x, window: {rows: 1_000, every: 10}}"
    assert load(rows).queries[0].window == sb.Counting(1000, 10)
    assert load(rows).watermark is None
    assert load(rows.replace("every: 10", "")).queries[0].window == sb.Counting(1000)


def test_several_queries_have_their_own_names():
    many = (
        SOURCE.replace("query: {", "queries: [{name: a, ").rstrip()
        + ", {name: b, k: 2, by: value, window: 1 h, time: timestamp}]"
    )
    assert [query.name for query in load(many).queries] == ["a", "b"]
    with pytest.raises(ParseError, match=r"queries\[1\] must have a name of its own, got 'a'"):
        load(many.replace("name: b", "name: a"))


def test_a_join_names_a_service_of_the_file():
    text = SOURCE.replace(
        "time: timestamp", "time: timestamp, join: {service: crm, on: value, columns: [fans], refresh: {budget: 7}}"
    )
    text += 'services: {crm: {kind: sql, url: "postgresql://${PW}@db/x", table: users}}\n'
    text = text.replace("by: value", "by: value + fans")
    job = load(text)
    assert job.remotes[0].service == "crm"
    assert job.remotes[0].columns == ("fans",)
    assert job.remotes[0].options == (("refresh", {"budget": 7}),)
    named = load(text.replace("[fans]", "{fans: 'urn:x#fans'}"))
    assert named.remotes[0].columns == ("fans",)
    said = named.statements[0]  # a text names the service; what it is, the file alone says
    assert sb.parse(sb.to_yaml(said)) == replace(said, query=replace(said.query, join=None))
    assert named.remotes[0].properties == (("fans", "urn:x#fans"),)
    assert dict(job.services)["crm"].url == EnvTemplate("postgresql://${PW}@db/x")
    with pytest.raises(ParseError, match="joins 'crmm', which is not under services: did you mean crm"):
        load(text.replace("service: crm", "service: crmm"))


def test_kinds_say_what_they_need():
    kafka = 'source: {kind: kafka, url: "h:1", topic: t, schema: "x int"}\nquery: {k: 1, by: x, window: {rows: 5}}'
    assert load(kafka).source.topic == EnvTemplate("t")
    for part, says in [('url: "h:1", ', "url"), ("topic: t, ", "topic"), (', schema: "x int"', "schema")]:
        with pytest.raises(ParseError, match=f"source: {says} must be given with kind: kafka"):
            load(kafka.replace(part, ""))
    options = kafka.replace('url: "h:1", topic: t', "options: {kafka.bootstrap.servers: h, subscribe: t}")
    assert load(options).source.settings() == {"kafka.bootstrap.servers": "h", "subscribe": "t"}


@st.composite
def queries(draw):
    """Any query that a text can hold."""
    names = st.sampled_from(["ts", "on", "null", "1e3", "x y", "日本", "a: b", "#c", "- d", "true", "0x1F", "~"])
    size = draw(st.integers(1, 10**13))
    slide = draw(st.integers(1, size))
    window = draw(
        st.sampled_from(
            [
                sb.Counting(min(size, 10**9), min(slide, 10**9)),
                sb.Counting(min(size, 10**9)),
                sb.Sliding(f"{size} us", "row"),
                sb.Sliding(f"{size} us", f"{slide} us", origin=f"{size // 3} us", closed="right"),
                sb.Tumbling(f"{size} us"),
            ]
        )
    )
    time = draw(names)
    emit = draw(st.sampled_from(["answers", "changes", "arrivals"]))
    return sb.TopK(
        k=draw(st.integers(1, 10**6)),
        by=draw(
            st.sampled_from(["x", "price * volume", "`a b` + 1", "CASE WHEN s = 'a: b # c' THEN 1 END", "3", "-x"])
        ),
        window=window,
        time=time,
        per=draw(st.lists(names.filter(lambda n: n != time), unique=True, max_size=3)),
        id=draw(st.none() | names),
        name=draw(st.none() | st.text(min_size=1, max_size=5).filter(lambda t: t.isprintable())),
        ascending=draw(st.booleans()),
        emit=emit,
        ranks=emit == "changes" and draw(st.booleans()),
        unit=draw(st.sampled_from([None, "s", "ns"])),
        prefix=draw(st.sampled_from(["", "sb_"])),
    )


@given(queries())
@settings(max_examples=60)
def test_a_query_survives_yaml(query):
    assert sb.parse(sb.to_yaml(query)).query == query
    job = yaml.safe_dump(
        {"source": {"kind": "parquet", "path": "x"}, "watermark": {"column": query.time, "late": "1 s"}}
    )
    listed = "\n".join("  " + line for line in sb.to_yaml([query]).splitlines())
    assert load(f"{job}queries:\n{listed}\n").queries == (query,)


@given(st.text(max_size=60) | st.sampled_from(WHOLE.splitlines()).map(lambda line: WHOLE.replace(line, line[::-1])))
@settings(max_examples=60)
def test_any_text_is_a_job_or_a_telling_error(text):
    with contextlib.suppress(sb.ParseError, sb.SourceError):
        assert isinstance(load(text + "\n"), Job)


@given(st.integers(0, len(WHOLE)), st.sampled_from("{}[]:,'\"#&*!|>%@`\t\n -?"))
@settings(max_examples=60)
def test_a_slip_of_the_finger_is_a_job_or_a_telling_error(at, letter):
    with contextlib.suppress(sb.ParseError):
        assert isinstance(load(WHOLE[:at] + letter + WHOLE[at:]), Job)
