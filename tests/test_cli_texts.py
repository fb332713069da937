"""skyband parse, init and doctor, and what all commands share."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import skyband as sb
from skyband.cli import app, doctor
from skyband.cli.init import PipelineOptions, template
from skyband.lang import load

SQL = """SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rn
  FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' HOUR)))
WHERE rn <= 3
"""
QUERY = sb.TopK(k=3, by="price", window=sb.Tumbling("1 hour"), time="ts")


def skyband(*args, text=None, env=None):
    return CliRunner().invoke(app, list(args), input=text, env=env)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["parse", "init", "doctor", "explain"])
def test_every_command_shows_examples(command):
    result = skyband(command, "--help")
    assert result.exit_code == 0
    assert f"skyband {command}" in result.stdout.split("Examples:")[1]


def test_parse_says_what_a_text_asks(here):
    (here / "query.sql").write_text(SQL, encoding="utf-8")
    for args, text in [(["query.sql"], None), (["-"], SQL), ([SQL], None)]:
        result = skyband("parse", *args, text=text)
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines()[:3] == ["stream: trades", "k: 3", "by: price"]
    said = json.loads(skyband("parse", "query.sql", "--json").stdout)
    assert said["language"] == "sql"
    assert said["queries"] == [
        {"stream": "trades", "k": 3, "by": "price", "window": {"size": "1 hour", "slide": "1 hour"}, "time": "ts"}
    ]


def test_parse_translates(here):
    (here / "query.sql").write_text(SQL, encoding="utf-8")
    written = skyband("parse", "query.sql", "--to", "yaml").stdout
    assert sb.parse(written).query == QUERY
    assert sb.parse(skyband("parse", written, "--to", "sql").stdout).query == QUERY
    refused = skyband("parse", "query.sql", "--to", "rspql")
    assert refused.exit_code == 2
    assert "closed must be 'right'" in refused.stderr


def test_parse_knows_functions_and_services():
    listing = """SELECT ?user (F(?m, ?f) AS ?score) FROM NAMED WINDOW :W ON :S [RANGE 9m STEP 3m]
    WHERE { WINDOW :W { ?user :m ?m } SERVICE :BKG { ?user :f ?f } } ORDER BY DESC(?score) LIMIT 1"""
    assert "F with 2 arguments must be a known function" in skyband("parse", "-", text=listing).stderr
    said = json.loads(skyband("parse", "-", "--function", "F(a, b) = a + 2 * b", "--json", text=listing).stdout)
    assert said["queries"][0]["by"] == "m + 2 * f"
    assert said["queries"][0]["join"]["sparql"].startswith("SELECT ?user ?f WHERE { ?user <urn:skyband:f> ?f")
    assert skyband("parse", "-", "--function", "F", text=listing).exit_code == 2


def test_parse_tells_of_the_join_of_a_pipeline_file(here):
    (here / "p.yaml").write_text(
        "source: {kind: rate}\nwatermark: 1 s\n"
        "query: {k: 2, by: value + y, window: 1 m, time: timestamp, "
        "join: {service: crm, on: value, columns: [y], refresh: {budget: 3}}}\n"
        "services: {crm: {kind: http, url: 'https://crm.example/users'}}\n",
        encoding="utf-8",
    )
    assert "join: service: crm, on: value, columns: y, refresh: {budget: 3}" in skyband("parse", "p.yaml").stdout
    assert json.loads(skyband("parse", "p.yaml", "--json").stdout)["queries"][0]["join"]["refresh"] == {"budget": 3}


def test_a_wrong_text_is_one_line_with_its_place(here):
    (here / "query.sql").write_text(SQL.replace("TUMBLE", "CUMULATE"), encoding="utf-8")
    result = skyband("parse", "query.sql")
    assert result.exit_code == 2
    assert result.stderr == "skyband: query.sql:3:14: CUMULATE windows are not supported: use HOP or TUMBLE\n"
    (here / "p.yaml").write_text("source: {kind: rate}\nsink: consol\n", encoding="utf-8")
    assert skyband("parse", "p.yaml").stderr.startswith("skyband: p.yaml:1:1: the file must have a query: add query:")


def test_explain_takes_a_text(here):
    (here / "query.sql").write_text(SQL, encoding="utf-8")
    assert skyband("explain", "query.sql").stdout == f"{sb.explain(QUERY)}\n"
    assert json.loads(skyband("explain", "query.sql", "--json").stdout)["engine"] == "sweep"
    (here / "p.yaml").write_text(
        "source: {kind: rate}\nwatermark: 1 s\nqueries:\n"
        + "".join(f"- {{name: {n}, k: 2, by: value, window: 1 m, time: timestamp}}\n" for n in "ab"),
        encoding="utf-8",
    )
    assert skyband("explain", "p.yaml").stdout.count("engine: sweep") == 2
    assert len(json.loads(skyband("explain", "p.yaml", "--json").stdout)) == 2
    assert "got both" in skyband("explain", "p.yaml", "--by", "x").stderr
    assert skyband("explain").exit_code == 2


@pytest.mark.usefixtures("here")
def test_init_writes_a_file_that_is_right():
    result = skyband("init", "--yes")
    assert result.exit_code == 0, result.output
    job = load("pipeline.yaml")
    assert (job.source.kind, job.sink.kind, job.ahead_of_clock) == ("rate", "console", "1 hour")
    again = skyband("init", "--yes")
    assert again.exit_code == 2
    assert "'pipeline.yaml' exists: add --force" in again.stderr
    assert json.loads(skyband("init", "--yes", "--force", "--json").stdout)["file"] == "pipeline.yaml"
    assert load(skyband("init", "-", "--yes").stdout) == job


def test_init_looks_at_the_files(here):
    rows = pa.table({"sym bol": ["a"], "at": pa.array([0], pa.timestamp("us", "UTC")), "price": [1.5], "n": [[1]]})
    (here / "trades").mkdir()
    pq.write_table(rows, here / "trades" / "1.parquet")
    flags = [
        "--source",
        "parquet",
        "--path",
        "trades",
        "--by",
        "price",
        "--per",
        "sym bol",
        "--k",
        "3",
        "--name",
        "a: b",
    ]
    result = skyband("init", *flags, "--sink", "latest", "--window", "1 hour/5 minutes")
    assert result.exit_code == 0, result.output
    job = load("pipeline.yaml")
    assert job.source.schema == "`sym bol` string, at timestamp, price double, n array<bigint>"
    assert job.queries[0] == sb.TopK(
        k=3, by="price", window=sb.Sliding("1 hour", "5 minutes"), time="at", per="sym bol"
    )
    assert (job.name, job.sink.table, str(job.checkpoint)) == ("a: b", "a_b", "state/a-b")
    wrong = skyband("init", "x.yaml", *flags[:4], "--by", "prize")
    assert wrong.exit_code == 2
    assert "query.by names column 'prize', which source.schema does not have: did you mean price" in wrong.stderr
    assert not Path("x.yaml").exists()


def test_init_says_which_flag_is_missing(here):
    assert "--source kafka needs --url: add it" in skyband("init", "--source", "kafka").stderr
    assert "needs --by" in skyband("init", "--source", "parquet", "--path", "x").stderr
    assert not list(here.iterdir())


def test_init_asks_on_a_terminal(here):
    """In a real terminal, though a pseudo one, with answers typed in."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from skyband.cli import main; main()", "init"]
    env = {**os.environ, "PYTHONPATH": str(Path(sb.__file__).parents[1])}  # these sources, from any folder
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=here, env=env) as running:
        os.close(theirs)
        shown = b""
        answers = [b"json", b"in/", b"t timestamp, v double", b"t", b"v * 2", b"", b"", b"", b"", b"memory"]
        while True:
            try:
                read = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            shown += read
            if shown.rstrip().endswith(b":") and answers:
                os.write(ours, answers.pop(0) + b"\n")
                shown += b"\n"
        assert running.wait(60) == 0, shown.decode()
    os.close(ours)
    job = load("pipeline.yaml")
    assert (job.source.kind, str(job.source.path), job.sink.kind) == ("json", "in/", "memory")
    assert job.queries[0] == sb.TopK(k=10, by="v * 2", window=sb.Sliding("1 minute", "10 seconds"), time="t")


@pytest.mark.parametrize("kind", ["rate", "parquet", "json", "csv", "kafka", "redis", "mqtt"])
@pytest.mark.parametrize("sink", ["console", "parquet", "json", "csv", "memory", "latest", "kafka"])
def test_every_template_is_right(kind, sink):
    files, remote = kind in ("parquet", "json", "csv"), kind in ("kafka", "redis", "mqtt")
    answers = PipelineOptions(
        kind=kind, sink=sink, path="a: b/" if files else "", url="h:1" if remote else "", topic="t" * remote
    )
    if kind != "rate":
        answers = PipelineOptions(**{**vars(answers), "schema": "ts timestamp, x double", "time": "ts", "by": "x"})
    assert load(template(answers)).sink.kind == sink


def test_doctor_looks_at_this_machine():
    result = skyband("doctor", "--json")
    findings = {finding["what"]: finding for finding in json.loads(result.stdout)}
    assert findings["Python"] == {"what": "Python", "state": "ok", "found": sys.version.split()[0], "do": ""}
    assert {"Spark", "Java", "memory", "scratch", "kernels", "pyarrow"} <= set(findings)
    assert all(finding["do"] for finding in findings.values() if finding["state"] != "ok")
    assert result.exit_code == (5 if any(f["state"] == "wrong" for f in findings.values()) else 0)
    plain = skyband("doctor").stdout
    assert re.search(r"^ok +Python +\d", plain, re.MULTILINE)
    assert "\x1b" not in plain


def test_doctor_finds_a_java_that_is_too_old(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho '    java.specification.version = 1.8' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = doctor.check_java()
    assert (found.state, found.found) == ("wrong", f"version 8 at {java}")
    assert "install Java 17 or later" in found.do
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert "does not start" in doctor.check_java().found


def test_doctor_says_what_it_costs_to_keep_no_compiled_modules(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    assert doctor.check_bytecode().state == "ok"
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))  # nothing is kept there
    found = doctor.check_bytecode()
    assert found.state == "care"
    assert "not compiled: numpy, pandas" in found.found
    assert "unset PYTHONDONTWRITEBYTECODE" in found.do
    assert "seconds" in found.do
    for name in ("numpy", "pandas", "pyarrow", "pyspark", "skyband"):
        kept = Path(importlib.util.cache_from_source(importlib.util.find_spec(name).origin))
        kept.parent.mkdir(parents=True)
        kept.touch()
    assert doctor.check_bytecode().state == "ok"


def test_doctor_looks_at_a_pipeline_and_shows_no_secret(here, monkeypatch):
    text = template(PipelineOptions()).replace(
        "kind: console", 'kind: latest\n  url: "sqlite:///${SKYBAND_DB}"\n  table: t'
    )
    (here / "p.yaml").write_text(text, encoding="utf-8")
    result = skyband("doctor", "p.yaml", "--json")
    assert result.exit_code == 5
    findings = {finding["what"]: finding for finding in json.loads(result.stdout)}
    assert findings["variables"]["found"] == "not set: SKYBAND_DB"
    monkeypatch.setenv("SKYBAND_DB", "s3cret")
    result = skyband("doctor", "p.yaml", "--json")
    assert "s3cret" not in result.output
    assert "variables" not in result.stdout
    assert skyband("doctor", "nowhere.yaml").exit_code == 3


def checkpoint(folder, begun, done):
    """What Spark leaves behind: a version, then JSON lines."""
    for name, numbers in (("offsets", begun), ("commits", done)):
        (folder / name).mkdir(parents=True)
        for number in numbers:
            lines = ["v1", '{"batchWatermarkMs":0}', *(['{"logOffset":0}'] * (name == "offsets"))]
            (folder / name / str(number)).write_text("\n".join(lines), encoding="utf-8")
            (folder / name / f".{number}.crc").write_bytes(b"crc")
    (folder / "metadata").write_text('{"id":"0f0e1d2c-1111-2222-3333-444455556666"}', encoding="utf-8")


def state(folder):
    found = next(iter(doctor.check_checkpoint(str(folder))))
    return found.state, found.found


def test_doctor_judges_checkpoints(tmp_path):
    checkpoint(tmp_path / "whole", range(3), range(3))
    assert state(tmp_path / "whole") == ("ok", "3 batches done, query 0f0e1d2c")
    checkpoint(tmp_path / "killed", range(4), range(3))
    assert state(tmp_path / "killed") == ("ok", "3 batches done, query 0f0e1d2c; batch 3 will be repeated")
    checkpoint(tmp_path / "lost", range(6), range(3))
    assert state(tmp_path / "lost")[0] == "wrong"
    checkpoint(tmp_path / "cut", range(3), range(3))
    (tmp_path / "cut" / "offsets" / "2").write_text('v1\n{"batchWater', encoding="utf-8")
    assert state(tmp_path / "cut") == ("wrong", "offsets/2 is truncated: a disk was full, or a machine failed")
    (tmp_path / "full").mkdir()
    assert state(tmp_path / "full")[0] == "ok"
    (tmp_path / "full" / "file").write_text("x", encoding="utf-8")
    assert state(tmp_path / "full")[0] == "wrong"
    assert state("s3://bucket/x")[0] == "ok"
    assert state(tmp_path / "new")[0] == "ok"
    assert skyband("doctor", "--checkpoint", str(tmp_path / "cut")).exit_code == 5


@pytest.mark.usefixtures("here")
def test_exit_codes_mean_something(monkeypatch):
    assert skyband("explain", "nowhere.sql").exit_code == 3
    assert skyband("explain", "--nonsense").exit_code == 2
    monkeypatch.setattr("skyband.api.explain", lambda *_, **__: 1 / 0)
    result = skyband("explain", "--by", "x", "--rows", "5")
    assert result.exit_code == 1
    assert result.stderr == "skyband: ZeroDivisionError: division by zero (skyband --debug ... shows where)\n"
    debugged = skyband("explain", "--by", "x", "--rows", "5", env={"SKYBAND_DEBUG": "1"})
    assert "Traceback" in debugged.stderr
    assert debugged.exit_code == 1


def fresh(*args, **env):
    code = "import sys; sys.argv[0] = 'skyband'; from skyband.cli import main; main()"
    whole = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=False, env={**whole, **env}
    )


def test_no_color_is_respected_by_help_and_tables():
    colour = re.compile(r"\x1b\[[0-9;]*3\dm")
    assert colour.search(fresh("--help", FORCE_COLOR="1").stdout)
    assert not colour.search(fresh("--help", FORCE_COLOR="1", NO_COLOR="1").stdout)
    assert colour.search(skyband("doctor", env={"FORCE_COLOR": "1", "NO_COLOR": None}).stdout)
    assert not colour.search(skyband("doctor", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout)


def test_the_shell_completes_commands_and_engines():
    def completed(words):
        env = {"_SKYBAND_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))}
        return fresh(**env).stdout.split()

    assert {"parse", "init", "doctor", "explain", "demo", "bench"} <= set(completed("skyband "))
    assert completed("skyband explain --engine ")[:3] == ["auto", "sweep", "mintopk"]
