"""Window arithmetic on whole numbers: which windows hold a row, when they close, and which rows are late."""

from skyband.windows.assigner import WindowAssigner, WindowAssignerUnion
from skyband.windows.watermark import MAX_TIME, MIN_TIME, WatermarkTracker, check_watermark

__all__ = ["MAX_TIME", "MIN_TIME", "WatermarkTracker", "WindowAssigner", "WindowAssignerUnion", "check_watermark"]
