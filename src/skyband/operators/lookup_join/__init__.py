"""Ranks rows whose score needs remote columns: a replica, refreshed by look-ups within a budget and a deadline."""
