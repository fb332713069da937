"""Hashes in Redis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skyband.errors import TableError
from skyband.tables._calls import TIME_LIMIT, PerLoop, run_within
from skyband.tables._filled import filled
from skyband.tables._need import need, shown
from skyband.tables.http import table_of

if TYPE_CHECKING:
    import pyarrow as pa


class Redis:
    """One hash a key, one field a column: HMGET for all ids in one round trip.

    Parameters
    ----------
    url
        Such as redis://:${PASSWORD}@localhost:6379/0: `${NAME}` is filled from the environment where the call is made.
    key
        What the key column is called.
    name
        The hash of a key, with {} for the key.
    types
        What each field is, such as {"followers": int}; others are floats.

    Examples
    --------
    >>> users = Redis("redis://localhost:6379/0", key="user", name="user:{}", types={"followers": int})
    >>> users.key
    'user'
    """

    def __init__(
        self, url: str, key: str, *, name: str = "{}", types: Mapping[str, Callable[[str], Any]] | None = None
    ) -> None:
        self.key = key
        self._url, self._name, self._types = url, name, dict(types or {})
        self._client: Any = None

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The rows of those ids."""
        redis = need("redis")
        aio = need("redis.asyncio")
        if self._client is None:
            url = self._url
            self._client = PerLoop(self, lambda: aio.Redis.from_url(filled(url), decode_responses=True))

        async def asked() -> list[Any]:
            async with self._client().pipeline(transaction=False) as pipe:
                for i in ids:
                    pipe.hmget(self._name.format(i), list(columns))
                return await pipe.execute(raise_on_error=False)  # what is no hash spoils no other

        try:
            found = run_within(TIME_LIMIT if timeout is None else timeout, asked)
        except (redis.RedisError, ValueError, OSError) as error:
            msg = shown(f"{self._url} failed: {type(error).__name__} {error}".strip())
            raise TableError(msg) from error
        rows, wrong = [], None
        for i, values in zip(ids, found, strict=True):
            try:
                if isinstance(values, Exception):
                    raise values
                row = {name: self._read(name, value) for name, value in zip(columns, values, strict=True)}
            except (redis.RedisError, ValueError) as error:
                wrong = TableError(f"{self._name.format(i)} has another type: {error}")
                continue
            if any(value is not None for value in values):
                rows.append({self.key: i, **row})
        return table_of(rows, [self.key, *columns], wrong)

    def __getstate__(self) -> dict[str, Any]:
        """What travels: where to ask, and no connection."""
        return {**self.__dict__, "_client": None}

    def _read(self, name: str, value: str | None) -> Any:
        return None if value is None else self._types.get(name, float)(value)
