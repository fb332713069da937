"""What the API returns and takes, for its OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

Cell = float | int | str | None


class Health(BaseModel):
    """Whether the server is up."""

    status: str
    version: str


class Boards(BaseModel):
    """A page of the boards that match a search."""

    total: int = Field(description="How many match.")
    boards: list[Annotated[list[str | None], Field(description="The query, then the values of its group as text.")]]


class Query(BaseModel):
    """The definition of a query."""

    name: str
    k: int | None
    by: str
    window: str
    per: list[str]
    ascending: bool


class Column(BaseModel):
    """A column of a board."""

    name: str
    kind: str = Field(description="number, time, text or id")


class Row(BaseModel):
    """A row of a board."""

    key: str = Field(description="The same for the same row in the next window.")
    rank: int
    move: int | None = Field(description="Ranks gained (lost: negative) since the window before; null for a new row.")
    score: Cell
    label: str
    cells: list[Cell]


class Left(BaseModel):
    """A row of the window before that is not in this one."""

    key: str
    rank: int
    label: str
    why: str = Field(description="expired, beaten, or empty if unknown")


class Board(BaseModel):
    """One window of a board."""

    query: str
    group: dict[str, str | None]
    number: int = Field(description="Increases from window to window.")
    start: Cell
    end: Cell
    timed: bool = Field(description="Whether start and end are times (UTC) rather than numbers.")
    size: int
    columns: list[Column]
    rows: list[Row]
    left: list[Left]


class Past(BaseModel):
    """A window that is kept."""

    number: int
    end: Cell
    score: float | None = Field(description="Score of its last rank.")


class History(BaseModel):
    """The windows of a board that are kept, oldest first."""

    windows: list[Past]


class Moment(BaseModel):
    """The metrics at one time."""

    at: float = Field(description="Seconds since 1970.")
    figures: dict[str, float]


class Progress(BaseModel):
    """The state of the run."""

    state: str = Field(description="running, ended or failed")
    error: str
    queries: int
    figures: dict[str, float]
    recent: list[Moment]


class SignIn(BaseModel):
    """The token, to be exchanged for a cookie."""

    token: Annotated[str, StringConstraints(max_length=4096)]


class Error(BaseModel):
    """Why a request failed."""

    detail: Any
