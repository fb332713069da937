"""Top-k views over tables, and leaderboards: what is best though scores change and rows disappear."""
