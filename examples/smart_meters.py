"""Smart meters over MQTT: which households draw most, street by street.

A real broker runs beside this program. A publisher sends the readings of an evening to meters/<street>/<house>; the
subscriber hands them on to `sb.stream` in small batches, and lists go out as soon as their quarter of an hour is over.

    python examples/smart_meters.py
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

import skyband as sb

STREETS = {"Elm Street": 12, "Oak Street": 20}
QUARTER = 15 * 60
QUERY = sb.TopK(k=3, by="watt", window=sb.Tumbling("15 minutes"), time="at", unit="s", per="street")


@contextlib.contextmanager
def broker() -> Iterator[int]:
    """An MQTT broker on a free port of this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "broker.yaml"
        config.write_text(
            f"listeners: {{default: {{type: tcp, bind: '127.0.0.1:{port}'}}}}\n"
            "plugins: {amqtt.plugins.authentication.AnonymousAuthPlugin: {allow_anonymous: true}}\n"
        )
        program = [str(Path(sys.executable).parent / "amqtt"), "-c", str(config)]
        with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - ours
            try:
                yield port
            finally:
                process.terminate()


def client(port: int) -> mqtt.Client:
    """A client that is connected, once the broker is up."""
    made = mqtt.Client(CallbackAPIVersion.VERSION2)
    for _ in range(300):
        with contextlib.suppress(OSError):
            made.connect("127.0.0.1", port)
            return made
        time.sleep(0.1)
    msg = "the broker did not come up within 30 seconds"
    raise TimeoutError(msg)


def publish(port: int, seed: int = 3) -> None:
    """One reading a minute of every house, from 17:00 to 18:00; somebody on Oak Street heats a sauna."""
    rng, sender = np.random.default_rng(seed), client(port)
    sender.loop_start()
    for minute in range(60):
        for street, houses in STREETS.items():
            for house in range(1, houses + 1):
                sauna = 9_000 * (street == "Oak Street" and house == 7 and minute >= 30)
                reading = {"at": 17 * 3600 + minute * 60, "watt": int(rng.gamma(2, 300)) + sauna}
                sent = sender.publish(f"meters/{street}/{house}", json.dumps(reading), qos=1)
        sent.wait_for_publish(60)  # no more than one minute of readings is under way
    sender.publish("meters/end", qos=1).wait_for_publish(60)
    sender.disconnect()
    sender.loop_stop()


def readings(port: int, ready: threading.Event) -> Iterator[dict[str, list[object]]]:
    """What arrives, in batches of whatever has come by then."""
    inbox: queue.Queue[mqtt.MQTTMessage] = queue.Queue()
    receiver = client(port)
    receiver.on_subscribe = lambda *_: ready.set()
    receiver.on_message = lambda _client, _data, message: inbox.put(message)
    receiver.subscribe("meters/#", qos=1)
    receiver.loop_start()
    going = True
    while going:
        batch = [inbox.get(timeout=60)]
        while not inbox.empty() and len(batch) < 500:
            batch.append(inbox.get())
        going = batch[-1].topic != "meters/end"
        parts = [(m.topic.split("/"), json.loads(m.payload)) for m in batch if m.topic != "meters/end"]
        yield {
            "at": [body["at"] for _, body in parts],
            "street": [topic[1] for topic, _ in parts],
            "house": [int(topic[2]) for topic, _ in parts],
            "watt": [body["watt"] for _, body in parts],
        }
    receiver.disconnect()
    receiver.loop_stop()


def main() -> None:
    """Print each list as its quarter ends."""
    with broker() as port:
        ready = threading.Event()
        sender = threading.Thread(target=lambda: ready.wait(60) and publish(port))
        sender.start()
        answers = sb.stream(QUERY, readings(port, ready))
        print(f"Smart meters: the highest draws of each quarter of an hour\n\n{'until':<8}{'street':<12}", end="")
        print("".join(f"{place:>16}" for place in ("1st", "2nd", "3rd")))
        top: dict[tuple[int, str], list[str]] = {}
        for table in answers:
            for row in table.to_pylist():
                top.setdefault((row["window_end"], row["street"]), []).append(f"no {row['house']}: {row['watt']:,} W")
        for (end, street), cells in sorted(top.items()):
            print(f"{end // 3600}:{end // 60 % 60:02}   {street:<12}" + "".join(f"{cell:>16}" for cell in cells))
        sender.join()
    print(f"\n{answers.stats.rows:,} readings came over MQTT, {answers.stats.late_rows} too late.")
    print("A grid operator who sees the sauna at 17:45 can ask it to wait, before the fuse of the street goes.")


if __name__ == "__main__":
    main()
