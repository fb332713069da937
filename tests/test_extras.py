"""A plain `pip install`: what works without any extra, and what to install for the rest."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from skyband.errors import _EXTRAS

ROOT = Path(__file__).resolve().parents[1]

# the libraries are there for other tests: here an import of them fails as if they were not
PLAIN = f"""
import sys

class Blocked:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {sorted(_EXTRAS)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked)
import skyband as sb
"""

FEATURES = {
    "sb.spark.top_k(query)": "spark",
    "sb.spark.latest(query, 'sqlite:///x.db')": "spark",
    "sb.spark.upsert_sink(query, 'sqlite:///x.db')": "spark",
    "import skyband.spark.sink": "sql",
    "sb.spark.view(None, 1, 'x')": "spark",
    "sb.spark.register(None)": "spark",
    "sb.spark.with_commands(None, None)": "spark",
    "sb.tables.open_table('sqlite://', 'stock', key='id')": "sql",
    "sb.tables.SqlTable('sqlite://', 't', key='id').fetch([1], ['x'])": "sql",
    "sb.tables.Http('http://h', key='id').fetch([1], ['x'])": "remote",
    "sb.tables.Sparql('http://h', 'i', {'x': 'http://x'}).fetch([1], ['x'])": "remote",
    "sb.tables.Redis('redis://h', key='id').fetch([1], ['x'])": "remote",
    "sb.parse('PREFIX : <http://e.org/> REGISTER RSTREAM :q AS SELECT ?a FROM NAMED WINDOW :w ON :s [RANGE 9m STEP 3m] "
    "WHERE { WINDOW :w { ?a :b ?c } } ORDER BY DESC(?c) LIMIT 3')": "lang",
    "from skyband.lang.rdf import read_turtle; read_turtle(0, '')": "lang",
    "from skyband.dashboard import Dashboard, Hub; Dashboard(Hub(), port=0).start()": "dashboard",
    "from skyband_lab.bench.plots import pyplot; pyplot()": "plot",
    "command('demo')": "spark",
    "command('run', 'pipeline.yaml')": "spark",
    "command('bench', 'spark', '--quick')": "spark",
    "command('demo', '--in-process', '--dashboard', '--port', '0')": "dashboard",
    "command('bench', 'view', '--quick')": "sql",
}
PIPELINE = """
source: {kind: rate}
watermark: 1 s
query: {k: 1, by: value, window: 1 minute, time: timestamp}
sink: console
"""
TRY = """
import json
from typer.testing import CliRunner
from skyband.cli import app

query = sb.TopK(k=1, by="x", window=sb.Tumbling("1 minute"), time="ts")

def command(*words):
    done = CliRunner().invoke(app, list(words))
    raise sb.SkybandError(f"exit {done.exit_code}: {done.output}")

for code in json.loads(sys.stdin.read()):
    try:
        exec(code)
        print(json.dumps("nothing was raised"))
    except sb.SkybandError as error:
        print(json.dumps(str(error)))
    except Exception as error:
        print(json.dumps(f"foreign {type(error).__name__}"))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    (folder / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PLAIN + TRY], input=json.dumps(list(FEATURES)), capture_output=True, text=True,
        timeout=120, cwd=folder, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(FEATURES)
    return dict(zip(FEATURES, map(json.loads, lines), strict=True))


@pytest.mark.parametrize("feature", FEATURES, ids=lambda code: code[:40])
def test_a_missing_library_names_the_extra_that_brings_it(said, feature):
    assert f'pip install "skyband[{FEATURES[feature]}]"' in said[feature]


def test_the_demo_says_how_to_see_it_without_spark(said):
    assert "skyband demo --in-process" in said["command('demo')"]
    assert said["command('demo')"].startswith("exit 5")


def test_every_extra_is_one_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(_EXTRAS.values()) == set(project["optional-dependencies"])


def test_the_session_of_the_readme_needs_no_extra():
    code = f"{PLAIN}\nimport doctest\nprint(doctest.testfile({str(ROOT / 'README.md')!r}, module_relative=False))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert "TestResults(failed=0" in done.stdout, done.stdout + done.stderr
