"""The remote side of the joins: a real service of frozen rows, in a process that can be killed and made to hang.

`python -m scripts.torture.service SEED PORT`.
"""

from __future__ import annotations

import random
import sys
from typing import Any

KEYS = 20


def frozen(seed: str) -> dict[str, list[Any]]:
    """What it serves, and what the joins know from the start: values that change are outside the promise."""
    rng = random.Random(f"{seed} service")
    return {"symbol": [f"S{n}" for n in range(KEYS)], "weight": [float(rng.randint(0, 5)) for _ in range(KEYS)]}


def main() -> None:
    """Serve until killed."""
    import uvicorn
    from fastapi import FastAPI

    found = frozen(sys.argv[1])
    weights = dict(zip(found["symbol"], found["weight"], strict=True))
    app = FastAPI()

    @app.get("/weights")
    def rows(ids: str) -> list[dict[str, Any]]:
        return [{"symbol": s, "weight": weights[s]} for s in ids.split(",") if s in weights]

    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")


if __name__ == "__main__":
    main()
