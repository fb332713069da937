"""Types of columns: SQLAlchemy's for Arrow's and DuckDB's, and back."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from skyband.errors import MissingLibraryError


def alchemy() -> Any:
    """SQLAlchemy, or what to install."""
    try:
        import sqlalchemy
    except ImportError as error:
        raise MissingLibraryError.of("a table in a database", "sqlalchemy") from error
    return sqlalchemy


def column_type(kind: pa.DataType) -> Any:
    """The column type for an Arrow type."""
    sqlalchemy = alchemy()
    if pa.types.is_boolean(kind):
        return sqlalchemy.Boolean()
    if pa.types.is_integer(kind):
        return sqlalchemy.BigInteger()
    if pa.types.is_floating(kind):
        return sqlalchemy.Double()
    if pa.types.is_decimal(kind):
        return sqlalchemy.Numeric(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return sqlalchemy.DateTime(timezone=kind.tz is not None)
    if pa.types.is_date(kind):
        return sqlalchemy.Date()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return sqlalchemy.LargeBinary()
    return sqlalchemy.types.NullType() if pa.types.is_nested(kind) else sqlalchemy.String()


def duckdb_type(name: str) -> Any:
    """The column type for one of DuckDB's."""
    sqlalchemy = alchemy()
    word = name.split("(", maxsplit=1)[0]
    if word.endswith("INT") or word in ("INTEGER", "UINTEGER"):
        return sqlalchemy.BigInteger()
    if word in ("DOUBLE", "FLOAT"):
        return sqlalchemy.Double()
    if word.startswith("TIMESTAMP"):
        return sqlalchemy.DateTime(timezone=word == "TIMESTAMP WITH TIME ZONE")
    if word == "DECIMAL":
        return sqlalchemy.Numeric(*map(int, re.findall(r"\d+", name)))
    known = {
        "BOOLEAN": sqlalchemy.Boolean(),
        "DATE": sqlalchemy.Date(),
        "VARCHAR": sqlalchemy.String(),
        "ENUM": sqlalchemy.String(),
        "BLOB": sqlalchemy.LargeBinary(),
        "UUID": sqlalchemy.Uuid(as_uuid=False),
    }
    return known.get(word, sqlalchemy.types.NullType())


def arrow_type(kind: Any) -> pa.DataType | None:
    """The Arrow type for one of SQLAlchemy's; None: as the values are."""
    sqlalchemy = alchemy()
    for known, told in (
        (sqlalchemy.Boolean, pa.bool_()),
        (sqlalchemy.Integer, pa.int64()),
        (sqlalchemy.Float, pa.float64()),
        (sqlalchemy.String | sqlalchemy.Uuid, pa.string()),
        (sqlalchemy.LargeBinary, pa.binary()),
        (sqlalchemy.Date, pa.date32()),
    ):
        if isinstance(kind, known):
            return told
    if isinstance(kind, sqlalchemy.DateTime):
        return pa.timestamp("us", "UTC" if kind.timezone else None)
    if isinstance(kind, sqlalchemy.Numeric) and kind.precision is not None and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale or 0)
    return None
