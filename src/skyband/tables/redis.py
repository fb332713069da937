"""Tables of hashes in Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from skyband.errors import TableError
from skyband.tables.remote import CALL_ERRORS, RemoteTable, Row, fill_env, require, run_until


class Redis(RemoteTable):
    """One hash per key, one field per column: HMGET for all ids in one round trip.

    Parameters
    ----------
    url
        Such as redis://:${PASSWORD}@localhost:6379/0. `${NAME}` is replaced from the environment of the process that
        calls.
    key
        Name of the key column.
    name
        The hash of a key, with {} for the key.
    types
        Type of each field, such as {"followers": int}. Default: float.

    Examples
    --------
    >>> import skyband as sb
    >>> users = sb.tables.Redis("redis://localhost:6379/0", key="user", name="user:{}", types={"followers": int})
    >>> users.key
    'user'
    """

    def __init__(
        self, url: str, key: str, *, name: str = "{}", types: Mapping[str, Callable[[str], Any]] | None = None
    ) -> None:
        super().__init__(url, key)
        self._name, self._types = name, dict(types or {})

    def _connect(self) -> Any:
        return require("redis.asyncio").Redis.from_url(fill_env(self._url), decode_responses=True)

    def _errors(self) -> tuple[type[Exception], ...]:
        return (require("redis").RedisError, *CALL_ERRORS)

    def _read(self, ids: Sequence[object], columns: Sequence[str], deadline: float) -> Iterator[Row | TableError]:
        redis = require("redis")

        async def execute() -> list[Any]:
            async with self.client().pipeline(transaction=False) as pipe:
                for key in ids:
                    pipe.hmget(self._name.format(key), list(columns))
                return await pipe.execute(raise_on_error=False)  # a value that is not a hash fails alone

        for key, values in zip(ids, run_until(deadline, execute), strict=True):
            try:
                if isinstance(values, Exception):
                    raise values
                row = {name: self._parse(name, value) for name, value in zip(columns, values, strict=True)}
            except (redis.RedisError, ValueError) as error:
                yield TableError(f"{self._name.format(key)} must be a hash with values of the given types: {error}")
                continue
            if any(value is not None for value in values):
                yield {self.key: key, **row}

    def _parse(self, name: str, value: str | None) -> Any:
        return None if value is None else self._types.get(name, float)(value)
