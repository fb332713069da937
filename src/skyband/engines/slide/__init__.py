"""Engines driven by windows that close: between two closings they only gather."""
