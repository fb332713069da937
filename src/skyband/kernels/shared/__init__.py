"""Top-k of many queries over one band, for all groups.

`room` has the columns, `groups` the loop over groups, `close` that over windows and rows, `merge` what ranks rows, and
`thin` what lets go of rows that need no rank.
"""

from skyband.kernels.shared.groups import looked, settled, shared
from skyband.kernels.shared.room import Marks, Page, Rows, roomed

__all__ = ["Marks", "Page", "Rows", "looked", "roomed", "settled", "shared"]
