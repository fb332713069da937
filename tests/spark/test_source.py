"""Redis Streams and MQTT, each against a real server."""

import datetime as dt
import json
import pickle
import time

import pyarrow as pa
import pytest
from streams import collected

import skyband as sb
from servers import mqtt_broker, redis_server

SCHEMA = "ts timestamp, sensor string, watt double, at long"
QUERY = sb.TopK(k=2, by="watt", window=sb.Tumbling("10 seconds"), time="ts", id="at")


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    from redis import Redis

    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield Redis.from_url(url), url


def reading(second, watt, at):
    return {"ts": f"2026-01-01T00:00:{second:02d}Z", "sensor": f"s{at % 3}", "watt": str(watt), "at": str(at)}


def boards(table):
    return [(row["window_end"].second, row["rank"], row["score"]) for row in table.sort_by("rank").to_pylist()]


def test_records_become_columns_whatever_is_in_them():
    from skyband.spark.source.reader import to_batch

    schema = pa.schema(
        [("t", pa.timestamp("us", "UTC")), ("x", pa.float64()), ("n", pa.int64()), ("l", pa.list_(pa.int64()))]
    )
    batch = to_batch(
        [
            {"t": b"2026-01-01T00:00:00Z", "x": b"1.5", "n": b"9007199254740993", "l": b"[1, 2]"},
            {"t": "1767225600", "x": "no number", "n": "1.5", "l": "nothing"},
            {"t": "2026-01-01 00:00:00", "x": None, "other": "ignored"},
        ],
        schema,
    )
    midnight = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert batch["t"].to_pylist() == [midnight] * 3
    assert batch["x"].to_pylist() == [1.5, None, None]
    assert batch["n"].to_pylist() == [9007199254740993, None, None]
    assert batch["l"].to_pylist() == [[1, 2], None, None]


@pytest.mark.spark
def test_a_redis_stream_goes_on_after_a_restart_and_is_read_once(spark, tmp_path, redis):
    client, url = redis
    for at in range(40):
        client.xadd("power", reading(at, at % 7, at))

    def stream():
        source = sb.spark.register(spark).readStream.format("redis-stream").schema(SCHEMA)
        df = source.options(url=url, stream="power", maxRowsPerTrigger="15").load()
        return df.withWatermark("ts", "0 seconds").transform(sb.spark.top_k(QUERY))

    first = collected(stream(), tmp_path / "checkpoint")
    for at in range(40, 60):
        client.xadd("power", reading(at, at % 7, at))
    second = collected(stream(), tmp_path / "checkpoint")
    both = pa.concat_tables([first, second])
    rows = [client_row for _, client_row in client.xrange("power")]
    want = sb.run(
        QUERY,
        pa.table(
            {
                "ts": pa.array([dt.datetime.fromisoformat(r[b"ts"].decode()) for r in rows], pa.timestamp("us", "UTC")),
                "watt": [float(r[b"watt"]) for r in rows],
                "at": [int(r[b"at"]) for r in rows],
            }
        ),
    )
    ends = [r for r in boards(want) if r[0] and r[0] <= 59]
    assert sorted(boards(both)) == sorted(ends)


@pytest.mark.spark
def test_a_silent_stream_closes_its_windows_only_with_idle(spark, tmp_path, redis):
    client, url = redis
    for at in range(5):
        client.xadd("silent", reading(at, at, at))

    def stream(**options):
        source = sb.spark.register(spark).readStream.format("redis-stream").schema(SCHEMA)
        df = source.options(url=url, stream="silent", time="ts", **options).load()
        return df.withWatermark("ts", "0 seconds").transform(sb.spark.top_k(QUERY))

    found = []
    without = collected(stream(), tmp_path / "without")
    assert without is None or without.num_rows == 0, "Spark's watermark stands still"
    running = (
        stream(idle="1 second")
        .writeStream.foreachBatch(lambda df, _: found.append(df.toArrow()))
        .option("checkpointLocation", str(tmp_path / "with"))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not any(t.num_rows for t in found) and running.isActive:
        time.sleep(0.2)
    running.stop()
    assert running.exception() is None
    assert boards(pa.concat_tables(found)) == [(10, 1, 4.0), (10, 2, 3.0)]


def taken(reader, start, end):
    """The rows between two offsets, as executors see them: reader and partitions travel."""
    away = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own
    parts = pickle.loads(pickle.dumps(list(reader.partitions(start, end))))  # noqa: S301 - our own
    return [row for part in parts for batch in away.read(part) for row in batch.to_pylist()]


def spark_schema():
    from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType, TimestampType

    kinds = {"ts": TimestampType(), "topic": StringType(), "watt": DoubleType(), "at": LongType()}
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def test_offsets_of_a_redis_stream_are_kept_to_and_can_be_read_again(redis):
    from skyband.spark.source.redis import RedisReader

    client, url = redis
    for at in range(40):
        client.xadd("offsets", reading(at, at % 7, at))
    reader = RedisReader({"url": url, "stream": "offsets", "maxRowsPerTrigger": "15"}, spark_schema())
    offsets = [reader.initialOffset()]
    while len(offsets) < 10:
        offsets.append(reader.latestOffset(offsets[-1]))
        if offsets[-1] == offsets[-2]:
            break
    spans = list(zip(offsets, offsets[1:], strict=False))
    assert [len(taken(reader, low, high)) for low, high in spans] == [15, 15, 10, 0]
    assert [row["at"] for low, high in spans for row in taken(reader, low, high)] == list(range(40))
    assert RedisReader({"url": url, "stream": "offsets", "start": "$"}, spark_schema()).initialOffset() == offsets[-1]
    reader.stop()
    for options, said in (
        ({}, "needs the option 'stream'"),
        ({"stream": "x", "maxRowsPerTrigger": "no"}, "maxrowspertrigger must be .* got 'no'"),
        ({"stream": "x", "idle": "5 seconds"}, "idle needs"),
        ({"stream": "x", "idle": "5 seconds", "time": "watt"}, "time must name a timestamp column .* got 'watt'"),
    ):
        with pytest.raises(sb.SkybandError, match=said):
            RedisReader(options, spark_schema())


def test_entries_trimmed_before_they_were_read_are_an_error_unless_their_loss_is_accepted(redis):
    from skyband.spark.source.redis import RedisReader

    client, url = redis
    for at in range(10):
        client.xadd("trimmed", reading(at, at % 7, at))
    options = {"url": url, "stream": "trimmed", "maxRowsPerTrigger": "4"}
    reader = RedisReader(options, spark_schema())
    low = reader.latestOffset(reader.initialOffset())
    client.xtrim("trimmed", maxlen=7, approximate=False)  # entry 3, the last one read, is still there
    assert len(taken(reader, low, reader.latestOffset(low))) == 4
    client.xtrim("trimmed", maxlen=3, approximate=False)  # entries 4 to 6 have not been read
    with pytest.raises(sb.SourceError, match=r"'trimmed'.*failOnDataLoss"):
        reader.latestOffset(low)
    reader.stop()
    reader = RedisReader({**options, "failOnDataLoss": "false"}, spark_schema())
    assert [row["at"] for row in taken(reader, low, reader.latestOffset(low))] == [7, 8, 9]
    reader.stop()


def test_mqtt_messages_are_written_down_before_they_are_acknowledged(tmp_path):
    from paho.mqtt import client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion

    from skyband.spark.source.mqtt import MqttReader

    with mqtt_broker(tmp_path) as port:
        publisher = mqtt.Client(CallbackAPIVersion.VERSION2)
        publisher.username_pw_set("meter", "x")
        publisher.connect("127.0.0.1", port)
        publisher.loop_start()

        def publish(low, high):
            for at in range(low, high):
                message = {"ts": f"2026-01-01T00:00:{at:02d}Z", "watt": float(at % 7), "at": at}
                publisher.publish("power/kitchen", json.dumps(message), qos=1).wait_for_publish(10)
            publisher.publish("power/kitchen", b"\xff no JSON", qos=1).wait_for_publish(10)

        publisher.publish("power/probe", b"{}", qos=1, retain=True).wait_for_publish(10)
        options = {"port": str(port), "topic": "power/#", "spool": str(tmp_path / "spool"), "username": "skyband"}

        def reach(reader, start, number):
            deadline = time.monotonic() + 30
            while (end := reader.latestOffset(start))["number"] < number and time.monotonic() < deadline:
                time.sleep(0.05)
            return end

        first = MqttReader(options, spark_schema())
        start = first.initialOffset()
        first.latestOffset(start)
        assert reach(first, start, 1)["number"] == 1, "the retained message comes with the subscription"
        publisher.publish("power/probe", b"", qos=1, retain=True).wait_for_publish(10)
        publish(0, 25)
        middle = reach(first, start, 28)
        rows = taken(first, start, middle)
        first.stop()
        publish(25, 45)  # nobody listens: the broker keeps them
        second = MqttReader({**options, "time": "ts", "idle": "1 second"}, spark_schema())
        assert taken(second, start, middle) == rows, "what was written down can be read again"
        end = reach(second, middle, 49)
        rows += taken(second, middle, end)
        second.commit(end)
        assert [row["at"] for row in rows if row["at"] is not None] == list(range(45))
        assert {row["topic"] for row in rows} == {"power/kitchen", "power/probe"}
        deadline = time.monotonic() + 30
        while (beat := second.latestOffset(end)) == end and time.monotonic() < deadline:
            time.sleep(0.05)
        assert beat["number"] == end["number"]
        (moved,) = taken(second, end, beat)
        assert moved["ts"] > dt.datetime(2026, 1, 1, 0, 0, 45, tzinfo=dt.UTC), "silence moves time"
        assert moved["watt"] is None
        second.stop()
        publisher.disconnect()
        publisher.loop_stop()
    with pytest.raises(sb.SourceError, match="no MQTT broker answers"):
        MqttReader({**options, "spool": str(tmp_path / "other")}, spark_schema()).latestOffset(start)
