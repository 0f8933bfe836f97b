"""Every number that a broker reports: its name, kind, meaning and label.

One table feeds the stats of the control socket, `/metrics`, the charts of the console and the reference page.

1. Names and labels never change: dashboards and alert rules have them. Without `holdfast_`, which `/metrics` adds.
2. Units are base units: seconds, bytes. A counter ends with `_total`.
3. The values of a label come from a closed set or from the settings, never from a client, a topic or a user.
4. Nothing here is counted per message that was not counted before: histograms are added to once a commit or once a loop
   iteration.
"""

from dataclasses import dataclass
from typing import Final

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

#: Upper bounds of durations, in seconds: from a fast disk to one that hangs.
DURATION_BOUNDS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
#: Upper bounds of answers to a browser or a program: few, because each route has its own.
ANSWER_BOUNDS: Final = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
#: Upper bounds of messages in a commit.
MESSAGE_BOUNDS: Final = (1.0, 2.0, 5.0, 10.0, 32.0, 100.0, 320.0, 1000.0, 3200.0, 10000.0, 32000.0)


@dataclass(frozen=True)
class Metric:
    name: str
    kind: str
    help: str
    #: The names of its labels.
    labels: tuple[str, ...] = ()
    #: Upper bounds of a histogram, without the last, infinite one.
    bounds: tuple[float, ...] = ()


def label_key(*values: str) -> str:
    """The key of a value with several labels in `Stats.labelled`; with one label, the key is its value."""
    return ",".join(values)


def label_values(metric: Metric, key: str) -> list[str]:
    """The values of a metric's labels, in their order. All but the last one are without commas."""
    return key.split(",", len(metric.labels) - 1)


def _counter(name: str, help: str, *labels: str) -> Metric:
    return Metric(f"{name}_total", COUNTER, help, labels)


def _gauge(name: str, help: str, *labels: str) -> Metric:
    return Metric(name, GAUGE, help, labels)


def _histogram(name: str, help: str, *labels: str, bounds: tuple[float, ...] = DURATION_BOUNDS) -> Metric:
    return Metric(name, HISTOGRAM, help, labels, bounds)


#: Values of the label `process`. The broker reports the first two, the console the others.
PROCESSES: Final = "broker, segments, history, console"

#: Reported by the broker, in the order of the reference page.
BROKER_METRICS: Final = (
    _gauge("start_time_seconds", "When the broker started, in seconds since 1970."),
    _histogram("loop_lag_seconds", "How much later than planned the event loop ran; measured twice a second."),
    _histogram("control_slice_seconds", "How long one step of work for the control socket held the event loop."),
    _gauge("reload_last_success_timestamp_seconds", "When settings were last reloaded without an error; 0 for never."),
    _counter("reload_failures", "Reloads of which a part was refused."),
    _gauge("connections", "Open connections, by listener.", "listener"),
    _counter("connections_opened", "Connections that were accepted, by listener.", "listener"),
    _counter("connects", "CONNECT packets."),
    _counter("refusals", "Connections and requests that were refused or ended, by MQTT reason code.", "reason"),
    _counter("handshakes_failed", "Connections that failed before they spoke MQTT, by step.", "event"),
    _gauge("sessions", "Sessions, by state: connected or offline.", "state"),
    _counter("sessions_expired", "Sessions whose expiry interval passed."),
    _gauge("clients_behind", "Connected clients with messages that wait in their queue."),
    _gauge("inflight_messages", "Messages that were sent and not acknowledged yet."),
    _gauge("subscriptions", "Subscriptions, by kind: ordinary or shared.", "kind"),
    _counter("packets_received", "MQTT packets from clients."),
    _counter("messages_received", "PUBLISH packets that were taken."),
    _counter("messages_sent", "PUBLISH packets to clients."),
    _counter("messages_repeated", "Numbered messages that came again and were not taken again."),
    _counter("messages_not_stored", "Messages that were delivered without room to store them."),
    _counter("bytes_received", "Bytes from clients."),
    _counter("bytes_sent", "Bytes to clients."),
    _counter("drops", "Messages that did not reach a client, by reason.", "reason"),
    _counter("events", "Events that were noted, by reason; what repeats within a second is one.", "reason"),
    _gauge("retained_messages", "Retained messages."),
    _gauge("replays", "Replays of history that are being sent to connected clients."),
    _counter("commits", "Batches that were committed to the log."),
    _gauge("commit_waiting", "1 while a batch waits to be written, or for its receipt."),
    _histogram("commit_seconds", "From the write of a batch to its receipt."),
    _histogram("sync_seconds", "Syncs of the write-ahead log."),
    _histogram("commit_messages", "Messages of a batch.", bounds=MESSAGE_BOUNDS),
    _counter("syncs", "Syncs of the write-ahead log, by place: loop or thread.", "place"),
    _gauge("segment_backlog_messages", "Messages in commit pages that no segment has yet, by zone.", "zone"),
    _gauge("lake_replays", "Replays that read from the lake."),
    _counter("lake_messages_replayed", "Messages that replays took from the lake."),
    _counter("lake_failures", "Questions to the lake that got no answer."),
    _counter("lake_replays_given_up", "Replays that went on without what the lake has."),
    _gauge("outbox_messages", "Messages that wait for an external queue."),
    _gauge("queue_backend_away", "1 while a backend of client queues does not answer.", "backend"),
    _gauge("stored_messages", "Messages in the log, by zone.", "zone"),
    _counter("retention_dropped_messages", "Messages that were dropped with old generations, by zone.", "zone"),
    _gauge("stored_bytes", "Bytes of table files, by zone.", "zone"),
    _gauge("generations", "Generations in the log, by zone.", "zone"),
    _gauge("oldest_message_timestamp_seconds", "When the oldest generation of a zone begins.", "zone"),
    _gauge("disk_free_bytes", "Free bytes on the disk of the data folder."),
    _gauge("disk_total_bytes", "Size of the disk of the data folder."),
    _gauge("disk_state", "1 for the state that the disk is in: ok, low or full.", "state"),
    _gauge("disk_refusing", "1 while messages are refused because the disk has too little room."),
    _gauge("clock_leap_seconds", "By how much the clock leapt ahead and is not followed; 0 while it is."),
    _gauge("rocksdb_wal_bytes", "Bytes of the write-ahead log."),
    _gauge("rocksdb_memtable_bytes", "Bytes of write buffers."),
    _gauge("rocksdb_pending_compaction_bytes", "Bytes that compactions have to rewrite."),
    _gauge(
        "poisoned", "1 once a write or a sync has failed for good: nothing is stored any more, and the broker ends."
    ),
    _gauge("damage_reports", "Reports of damaged data in the folder `quarantine`, until they are removed."),
    _gauge("unreadable_parts", "Parts of the log and retained messages that could not be read, since the start."),
    _gauge("lease_lag_seconds", "How far a pipeline is behind the newest message, by its lease.", "lease"),
    _gauge("lease_age_seconds", "Seconds since a pipeline's lease was renewed.", "lease"),
    _gauge("leases_broken", "Leases that retention has broken and that were not renewed or removed since."),
    _gauge("lease_broken_timestamp_seconds", "When retention broke a pipeline's lease.", "lease"),
    _gauge("certificate_expiry_timestamp_seconds", "When a listener's certificate ends.", "listener"),
    _counter("process_cpu_seconds", f"Processor time, by process: {PROCESSES}.", "process"),
    _gauge("process_resident_memory_bytes", "Memory, by process.", "process"),
    _gauge("process_open_fds", "Open files and sockets, by process.", "process"),
)

#: Reported by the console itself.
CONSOLE_METRICS: Final = (
    _gauge("build_info", "1, with the broker's version, and whether it is compiled.", "version", "compiled"),
    _gauge("up", "1 while the broker answers the console."),
    _gauge("frame_age_seconds", "Seconds since the broker last reported its numbers."),
    _gauge("alarm_active", "1 while an alarm is active.", "alarm"),
    _gauge("alarm_last_raised_timestamp_seconds", "When an alarm was last raised, active or over.", "alarm"),
    _gauge("history_readers_busy", "Readers of the history process that are in use; looked at every ten seconds."),
    _counter("console_requests", "Requests to the console, by route and status code.", "route", "code"),
    _histogram(
        "console_request_seconds",
        "Time to answer a call of the API or `/metrics`, by route, without event streams.",
        "route",
        bounds=ANSWER_BOUNDS,
    ),
)

METRICS: Final = {metric.name: metric for metric in (*BROKER_METRICS, *CONSOLE_METRICS)}
