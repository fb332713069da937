"""Queries as texts: SQL, RSP-QL and pipeline files, with errors that say line and column."""

from skyband.lang.parse import parse
from skyband.lang.pipeline_file import Job, load
from skyband.lang.query_yaml import to_yaml
from skyband.lang.rspql.write import to_rspql
from skyband.lang.sql.write import to_sql

__all__ = ["Job", "load", "parse", "to_rspql", "to_sql", "to_yaml"]
