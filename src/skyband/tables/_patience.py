"""How long a database may keep us waiting: nobody waits for ever."""

from __future__ import annotations

from typing import Any

CONNECT = 10
"""Seconds that a connection may take."""

SILENCE = 30
"""Seconds after which a connection whose other end says nothing, not even that it is alive, counts as lost."""


def patience(url: Any) -> dict[str, Any]:
    """What to hand to `sqlalchemy.create_engine` as `connect_args`, for an address.

    libpq and MySQL drivers wait for ever by default: for a server that takes a connection and never answers, and for
    one that has vanished without a word.

    Examples
    --------
    >>> patience("postgresql+psycopg://db.example/shop")["connect_timeout"]
    10
    >>> "connect_timeout" in patience("postgresql://db.example/shop?connect_timeout=60"), patience("sqlite:///shop.db")
    (False, {})
    """
    kind, _, rest = str(url).partition(":")
    dialect, _, driver = kind.partition("+")
    said = {part.partition("=")[0] for part in rest.partition("?")[2].split("&")}
    return {name: value for name, value in _usual(dialect, driver).items() if name not in said}


def _usual(dialect: str, driver: str) -> dict[str, Any]:
    if dialect == "postgresql" and driver in ("", "psycopg", "psycopg2"):
        return {
            "connect_timeout": CONNECT,
            "keepalives_idle": SILENCE // 3,
            "keepalives_interval": SILENCE // 6,
            "keepalives_count": 4,
            "tcp_user_timeout": SILENCE * 1000,
        }
    if dialect in ("mysql", "mariadb") and driver in ("", "pymysql", "mysqldb"):
        return {"connect_timeout": CONNECT}
    return {}
