"""Size of the wheel and of its functions, and files that a row passes: the baseline beside now (`make metrics`).

The wheel contains `src/skyband`; all figures are about its Python files.

Lines
    Code lines have no docstring, comment or blank. Every string that stands alone as a statement is a docstring.
Functions
    Lines from `def` to the end without the own docstring; nested functions and methods count too. A kernel is any
    function in `kernels/`.
Files a row passes
    The files in which a function is called while a small stream is answered, the files of `kernels/` counted as one.
    In process that is a whole call of `sb.run` with a query made before: planning, reading, answers. On Spark it is
    what runs in the Python workers, not the plan made by the driver. Module bodies and what they call do not count,
    so imports are free. Kernels run interpreted (NUMBA_DISABLE_JIT), so that their files are seen.

`--accept COMMIT` stores the figures as the baseline. `--source DIR` measures another tree, e.g. that of a commit:

    git archive COMMIT src | tar -x -C DIR && python scripts/metrics.py --source DIR/src/skyband --accept COMMIT
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "skyband"
BASELINE = ROOT / "lab" / "baseline.json"
KERNELS = "kernels/"
FUNCTION_LINES, KERNEL_LINES, KERNEL_PARAMETERS = 60, 150, 10
TRACES = {"run": "sb.run", "spark": "Spark", "workload": "workload", "join": "join"}
GOALS = {
    "lines": 36_000,
    "code_lines": 24_500,
    "files": 240,
    "longest_function": FUNCTION_LINES,
    "longest_kernel": KERNEL_LINES,
    "most_parameters": KERNEL_PARAMETERS,
    "run": 20,
    "spark": 26,
    "workload": 24,
    "join": 32,
}
LABELS = {
    "lines": "lines of Python",
    "code_lines": "code lines",
    "files": "files",
    "longest_function": "longest function outside kernels/",
    "functions_over": f"functions over {FUNCTION_LINES} lines",
    "longest_kernel": "longest kernel",
    "kernels_over": f"kernels over {KERNEL_LINES} lines",
    "most_parameters": "most parameters of a kernel",
    "parameters_over": f"kernels with over {KERNEL_PARAMETERS} parameters",
    **{name: f"files a row passes: {label}" for name, label in TRACES.items()},
    **{f"{name}_kernels": f"  {label}, each kernel file counted" for name, label in TRACES.items()},
}


class Function(NamedTuple):
    """A function of the wheel."""

    place: str  # file:line
    name: str
    lines: int
    parameters: int

    @property
    def is_kernel(self) -> bool:
        """Whether it is in `kernels/`."""
        return self.place.startswith(KERNELS)


@dataclass
class Metrics:
    """What is compared with the baseline, by the names of `LABELS`, and what lies beyond the goals."""

    figures: dict[str, int] = field(default_factory=dict)
    over: dict[str, list[str]] = field(default_factory=dict)


# ---------------------------------------------------------------- size


def measure_size(source: Path) -> Metrics:
    """Count lines, files and functions of a package."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    functions = [one for path, text in texts.items() for one in find_functions(text, str(path.relative_to(source)))]
    kernels = [one for one in functions if one.is_kernel]
    others = [one for one in functions if not one.is_kernel]
    over = {
        "functions_over": [(one, one.lines) for one in others if one.lines > FUNCTION_LINES],
        "kernels_over": [(one, one.lines) for one in kernels if one.lines > KERNEL_LINES],
        "parameters_over": [(one, one.parameters) for one in kernels if one.parameters > KERNEL_PARAMETERS],
    }
    figures = {
        "lines": sum(len(text.splitlines()) for text in texts.values()),
        "code_lines": sum(map(count_code_lines, texts.values())),
        "files": len(texts),
        "longest_function": max((one.lines for one in others), default=0),
        "longest_kernel": max((one.lines for one in kernels), default=0),
        "most_parameters": max((one.parameters for one in kernels), default=0),
        **{name: len(found) for name, found in over.items()},
    }
    listed = {
        name: [f"{size:5}  {one.place} {one.name}" for one, size in sorted(found, key=lambda pair: -pair[1])]
        for name, found in over.items()
    }
    return Metrics(figures, listed)


def count_code_lines(text: str) -> int:
    """Count the lines of a module that hold code.

    Examples
    --------
    >>> count_code_lines('"Says what."' + chr(10) * 2 + 'x = (  # why' + chr(10) + '    1)' + chr(10) + '# end')
    2
    """
    empty = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in empty:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if is_docstring(node):
            found.difference_update(_span(node))
    return len(found)


def find_functions(text: str, name: str) -> Iterator[Function]:
    """Find all functions of a module, nested ones and methods too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = len(_span(node.body[0])) if is_docstring(node.body[0]) else 0
            given = node.args
            parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            size = len(_span(node)) - docstring
            yield Function(f"{name}:{node.lineno}", node.name, size, sum(one is not None for one in parameters))


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is a string and nothing else."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _span(node: ast.AST) -> range:
    """The lines of a statement."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)  # type: ignore[attr-defined]


# ---------------------------------------------------------------- files a row passes


def trace_files(name: str, source: Path) -> set[str]:
    """Answer a small stream in a process of its own; the files it passes."""
    command = [sys.executable, "-W", "ignore", __file__, "--trace", name, "--source", str(source)]
    with tempfile.TemporaryDirectory(prefix="skyband-metrics-") as folder:
        log = Path(folder) / "files"
        site = Path(folder) / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(
            "import sys\n"
            "if 'pyspark.daemon' in sys.orig_argv:  # whose children are the workers\n"
            f"    sys.path.append({str(Path(__file__).parent)!r})\n"
            f"    import metrics; metrics.start_trace({str(source)!r}, {str(log)!r})\n"
            "    sys.path.pop()\n"
        )
        paths = [str(source.parent), *([str(site)] if name == "spark" else [])]
        environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(
            [*command, "--log", str(log)], env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"the stream of {name!r} failed:\n{done.stderr[-3000:]}")
        return set(log.read_text(encoding="utf-8").split())


def start_trace(source: str, log: str) -> None:
    """Write every file of the package to `log` when one of its functions is first called in this process."""
    package = str(Path(source)) + os.sep
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        path = frame.f_code.co_filename
        if event != "call" or path in seen or not path.startswith(package) or _is_import(frame, package):
            return
        seen.add(path)
        with open(log, "a", encoding="utf-8") as file:  # noqa: PTH123 - a forked worker may end at any time
            file.write(path.removeprefix(package).replace(os.sep, "/") + "\n")

    threading.setprofile(note)
    sys.setprofile(note)


def _is_import(frame: FrameType | None, package: str) -> bool:
    """Whether a frame belongs to the body of a module of the package, or is called by one."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(package):
            return True
        frame = frame.f_back
    return False


def answer_stream(name: str, source: Path, log: Path) -> None:
    """Answer the stream of a trace, twice: the second time everything is loaded."""
    # Interpreted kernels count in NumPy's integers, which `sb.run` of the baseline cannot write as JSON.
    json.JSONEncoder.default = lambda _self, value: value.item()  # type: ignore[assignment, method-assign]
    import skyband as sb

    assert Path(sb.__file__).is_relative_to(source), f"{sb.__file__} is not in {source}"
    if name == "spark":
        _answer_on_spark()
        return
    for traced in (False, True):
        query, rows = _queries()[name](), _rows()
        if traced:
            start_trace(str(source), str(log))
        result = sb.run(query, rows, progress=False)
        sys.setprofile(None)
        assert result.num_rows > 0


def _answer_on_spark() -> None:
    import pyarrow.parquet as pq

    from skyband.spark import top_k
    from skyband.spark.session import session

    plain = {"spark.python.daemon.module": "pyspark.daemon"}  # ours calls some functions before there are rows
    with tempfile.TemporaryDirectory() as folder:
        rows = _rows()
        (Path(folder) / "in").mkdir()
        for number in range(4):
            pq.write_table(rows.slice(number * 500, 500), f"{folder}/in/{number}.parquet", coerce_timestamps="us")
        spark = session("metrics", "local[2]", {**plain, "spark.sql.warehouse.dir": f"{folder}/warehouse"})
        schema = spark.read.parquet(f"{folder}/in").schema
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
        ranked = stream.withWatermark("ts", "1 second").transform(top_k(_queries()["run"]()))
        writer = ranked.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        writer.option("path", f"{folder}/out").trigger(availableNow=True).start().awaitTermination()
        assert spark.read.parquet(f"{folder}/out").count() > 0
        spark.stop()


def _rows() -> pa.Table:
    """2,000 rows of 20 seconds, in groups."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(1)
    return pa.table(
        {
            "ts": pa.array(np.arange(2_000) * 10_000, pa.timestamp("us", "UTC")),
            "symbol": rng.choice(["A", "B", "C"], 2_000),
            "user": rng.integers(0, 50, 2_000),
            "x": rng.random(2_000),
        }
    )


def _queries() -> dict[str, Callable[[], Any]]:
    """The queries of the traces: all per group over a sliding window."""
    import skyband as sb
    from skyband.tables import Memory

    def query(**options: Any) -> sb.TopK:
        usual = {"k": 3, "by": "x * 2", "window": sb.Sliding("6 s", "1 s"), "time": "ts", "per": "symbol"}
        return sb.TopK(**{**usual, **options})

    def workload() -> list[sb.TopK]:
        other = {"k": 5, "window": sb.Sliding("3 s", "1 s")}
        return [query(name="a", emit="changes"), query(name="b", emit="changes", **other)]

    def join() -> sb.TopK:
        remote = Memory({"user": list(range(50)), "y": [user / 7 for user in range(50)]}, "user")
        return query(
            by="n + y",
            join=sb.Join(remote, on="user", columns=["y"], aggregates={"n": "count(*)"}, refresh=sb.Refresh(budget=7)),
        )

    return {"run": lambda: query(emit="changes"), "workload": workload, "join": join}


def count_passed(files: set[str]) -> tuple[int, int]:
    """Count files, those of `kernels/` as one and each.

    Examples
    --------
    >>> count_passed({"api.py", "kernels/a.py", "kernels/b.py"})
    (2, 3)
    """
    kernels = sum(name.startswith(KERNELS) for name in files)
    return len(files) - kernels + bool(kernels), len(files)


# ---------------------------------------------------------------- the command


def main() -> None:
    """Measure, compare and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--source", type=Path, default=SOURCE, help="the package to measure")
    parser.add_argument("--accept", metavar="COMMIT", help="store the figures as the baseline, which is this commit")
    parser.add_argument("--no-spark", action="store_true", help="do not start Spark")
    parser.add_argument("--files", action="store_true", help="list the files that a row passes")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--trace", choices=[*TRACES], help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    source = given.source.resolve()
    if given.trace:
        answer_stream(given.trace, source, given.log)
        return
    metrics = measure_size(source)
    passed = {name: trace_files(name, source) for name in TRACES if not (given.no_spark and name == "spark")}
    for name, files in passed.items():
        metrics.figures[name], metrics.figures[f"{name}_kernels"] = count_passed(files)
    if given.accept:
        kept = {"commit": given.accept, "figures": metrics.figures}
        BASELINE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if given.json:
        print(json.dumps(asdict(metrics)))
        return
    print_comparison(metrics, json.loads(BASELINE.read_text(encoding="utf-8")))
    if given.files:
        for name, files in passed.items():
            print(f"\n{LABELS[name]}:", *sorted(files), sep="\n  ")


def print_comparison(metrics: Metrics, baseline: dict[str, Any]) -> None:
    """Print the figures beside those of the baseline, then what is over its limit."""
    print(f"{'':45}{'baseline':>10}{'now':>10}{'at most':>10}   (baseline: {baseline['commit'][:10]})")
    for name, label in LABELS.items():
        shown = (baseline["figures"].get(name), metrics.figures.get(name), GOALS.get(name))
        print(f"{label:45}" + "".join(f"{'' if number is None else format(number, ','):>10}" for number in shown))
    for name, lines in metrics.over.items():
        if lines:
            print(f"\n{LABELS[name]}:", *lines, sep="\n")


if __name__ == "__main__":
    main()
