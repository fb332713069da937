"""Streaming sources for `spark.readStream.format(...)`: Redis Streams and MQTT.

Both take `idle="30 seconds"`: after that long without a row, event time advances with the clock, so that the last
windows of a silent stream close. This is done by rows that have a time and NULL elsewhere; they count as rows without a
score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> SparkSession:
    """Register the formats `redis-stream` and `mqtt` with a session.

    Examples
    --------
    >>> import skyband as sb
    >>> def trades(spark):
    ...     source = sb.spark.register(spark).readStream.format("redis-stream")
    ...     return source.options(stream="trades", time="ts", idle="30 seconds").schema("ts timestamp, x double").load()
    """
    from skyband.spark.session import use_our_python
    from skyband.spark.source.mqtt import MqttSource
    from skyband.spark.source.redis import RedisSource

    use_our_python(spark)
    spark.dataSource.register(RedisSource)
    spark.dataSource.register(MqttSource)
    return spark
