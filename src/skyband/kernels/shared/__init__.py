"""Top-k of many queries over one band, for all groups.

`views` has what open windows see, `memory` what the kernels work on, `groups` the loop over groups, `close` that over
windows and rows, `levels` the walk that answers, `merge` what ranks rows, and `prune` what drops rows without a rank.
"""
