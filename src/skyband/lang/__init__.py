"""TEXTS: SQL, RSP-QL and pipeline files as values, with errors that say line and column."""

from skyband.lang.file import load
from skyband.lang.job import Job
from skyband.lang.parse import parse
from skyband.lang.rspql.write import to_rspql
from skyband.lang.sql.write import to_sql
from skyband.lang.write import to_yaml

__all__ = ["Job", "load", "parse", "to_rspql", "to_sql", "to_yaml"]
