"""The dashboard: a hub that a runner feeds, a server on this machine, and a page that shows boards as they change.

>>> import pyarrow as pa
>>> from skyband.dashboard import Hub
>>> hub = Hub()
>>> answers = {"window_start": [0], "window_end": [60], "rank": [1], "score": [9.5], "who": ["A"]}
>>> hub.answers("trades", pa.table(answers))
>>> hub.boards().boards
[('trades',)]
"""

from skyband.dashboard.hub import Hub
from skyband.dashboard.server import Dashboard

__all__ = ["Dashboard", "Hub"]
