"""Top-k of many queries over one band, for all groups.

`room` has the columns, `groups` the loop over groups, `close` that over windows and rows, `merge` what ranks rows,
`thin` what lets go of rows that need no rank, and `shelf` what answers.
"""

from skyband.kernels.shared.groups import looked, settled, shared
from skyband.kernels.shared.room import STRIDE, Marks, Rows, roomed

__all__ = ["STRIDE", "Marks", "Rows", "looked", "roomed", "settled", "shared"]
