"""What is measured, under which key, how it is called, and what its budget is."""

from __future__ import annotations

from dataclasses import dataclass

from bench.storage.rows import COUNT, MEGABYTES, MICROSECONDS, MILLISECONDS, PER_SECOND

KILOBYTES = "KB"

#: When the broker is measured: without a console, and with one that more and more is asked of.
OFF, AGAIN, IDLE, WATCHED, COUNTED = "off", "again", "idle", "watched", "counted"
MOMENTS = {
    OFF: "without a console",
    # How far two measurements of the same are apart: a ratio below that says nothing.
    AGAIN: "the same broker once more (noise)",
    IDLE: "console running, nobody looks",
    WATCHED: "three overviews, a searched client list, /metrics every 5 s",
    COUNTED: "the same while filters of all stored messages are counted",
}
#: Of each moment.
LOAD = {"rate": PER_SECOND, "cpu_us": MICROSECONDS, "p99_ms": MILLISECONDS}


@dataclass(frozen=True)
class Budget:
    key: str
    label: str
    unit: str
    #: None: the figure is shown, and has no budget.
    bound: float | None
    #: Whether the bound is the least it may be; else it is the most.
    at_least: bool = False
    #: The key of what it is divided by, if a ratio counts.
    against: str = ""

    @property
    def judged(self) -> str:
        """The key of what is compared with the bound.

        Ratios are measured like figures, each of two values that were taken one after the other: the median of ratios
        does not follow a machine that gets slower and faster, as the ratio of medians does.
        """
        return f"{self.key}/ratio" if self.against else self.key

    def value(self, results: dict[str, float]) -> float:
        return results[self.judged]

    def is_met(self, results: dict[str, float]) -> bool | None:
        """None without a bound."""
        if self.bound is None:
            return None
        value = self.value(results)
        return value >= self.bound if self.at_least else value <= self.bound


def _loads(moment: str, rate: float | None, cpu: float | None, p99: float | None) -> tuple[Budget, ...]:
    words = MOMENTS[moment]
    return (
        Budget(f"load/{moment}/rate", f"{words}: throughput", PER_SECOND, rate, True, f"load/{OFF}/rate"),
        Budget(f"load/{moment}/cpu_us", f"{words}: CPU per message", MICROSECONDS, cpu, False, f"load/{OFF}/cpu_us"),
        Budget(f"load/{moment}/p99_ms", f"{words}: p99 of a PUBACK", MILLISECONDS, p99, False, f"load/{OFF}/p99_ms"),
    )


LOADS = (
    *_loads(AGAIN, None, None, None),
    *_loads(IDLE, 0.99, 1.01, 1.05),
    *_loads(WATCHED, 0.97, 1.03, 1.10),
    # The cores are shared with what counts, so its throughput has no budget.
    *_loads(COUNTED, None, 1.05, 2.0),
)

HOLDS = (
    Budget("hold/snapshot_ms", "longest hold of the loop while clients are listed, at most", MILLISECONDS, 5),
    Budget("hold/median_ms", "half of these holds, at most", MILLISECONDS, None),
    Budget("hold/run_ms", "longest hold in the whole run, load and all, at most", MILLISECONDS, None),
    Budget("memory/broker_mb", "memory that the console costs the broker", MEGABYTES, 2),
    Budget("memory/console_idle_mb", "memory of the console, idle", MEGABYTES, 70),
    Budget("memory/console_many_mb", "memory of the console, many clients", MEGABYTES, 200),
    Budget("memory/history_mb", "memory of the history process while it scans", MEGABYTES, 300),
)

#: Calls of the API, by key.
CALLS = {"stats": "stats", "clients": "a page of clients", "client": "one client", "events": "events"}
API = (
    *[
        Budget(f"api/idle/{key}/{quantile}_ms", f"{words}: {quantile}", MILLISECONDS, bound)
        for key, words in CALLS.items()
        for quantile, bound in (("p50", 5), ("p99", 50))
    ],
    Budget("api/many/clients/p50_ms", "a searched page of many clients: p50", MILLISECONDS, 5),
    Budget("api/many/clients/p99_ms", "a searched page of many clients: p99", MILLISECONDS, 50),
    *[
        Budget(f"api/busy/{key}/p99_ms", f"{words}, broker under full load: p99", MILLISECONDS, 200)
        for key, words in CALLS.items()
    ],
    Budget("metrics/p95_ms", "`/metrics`: p95", MILLISECONDS, 20),
    Budget("metrics/size_kb", "`/metrics`: size", KILOBYTES, 100),
    Budget("kick/p95_ms", "from a kick to the client being gone: p95", MILLISECONDS, 300),
)

EXPORT = Budget("export/console_rate", "CSV through the console", PER_SECOND, 0.8, True, "export/command_rate")
PAST = (
    Budget("past/all_first_ms", "first strip of `#`", MILLISECONDS, 200),
    Budget("past/filter_first_ms", "first strip of any filter", MILLISECONDS, 300),
    Budget("past/all_exact_ms", "exact strip of `#`", MILLISECONDS, 1000),
    Budget("past/device_exact_ms", "exact strip of a filter that names a device", MILLISECONDS, 1000),
    Budget("past/filter_exact_ms", "exact strip of any filter, first time", MILLISECONDS, 15_000),
    Budget("past/filter_again_ms", "exact strip of any filter, again", MILLISECONDS, 1000),
    Budget("past/page_ms", "100 messages at any moment", MILLISECONDS, 150),
    Budget("past/topic_state_ms", "state of one topic", MILLISECONDS, 50),
    Budget("past/many_state_ms", "state of topics that speak once a minute", MILLISECONDS, 2000),
    Budget("past/plot_ms", "plot of a day of one topic", MILLISECONDS, 500),
    EXPORT,
)

SIZES = (
    Budget("page/size_kb", "the page over the network, first start", KILOBYTES, 250),
    Budget("packages/count", "new packages of the plain install", COUNT, 6),
    Budget("packages/size_mb", "their size on disk", MEGABYTES, 5),
)

#: Known by a browser alone, and left out where there is none.
BROWSER = (
    Budget("browser/start_ms", "overview, nothing cached: from the address to its numbers", MILLISECONDS, 1000),
    Budget("browser/start_kb", "received for that, API calls included", KILOBYTES, 250),
    Budget("browser/script_ms", "time in scripts for that", MILLISECONDS, 200),
    Budget("browser/scroll_task_ms", "scrolling many clients: longest task", MILLISECONDS, 50),
    Budget("browser/scroll_elements", "scrolling many clients: most elements in the page", COUNT, 3000),
    Budget("browser/heap_first_mb", "heap of the overview after its first minute", MEGABYTES, None),
    Budget("browser/heap_growth_mb", "the same after the frames of 8 hours, above that", MEGABYTES, 20),
    Budget("browser/kick_ms", "from a click on Disconnect to the client being gone: p95", MILLISECONDS, 300),
    Budget("browser/live_ms", "from a publish to its bar in the live strip: p95", MILLISECONDS, 1000),
)

#: The tables, with the heading of their first column.
TABLES = {
    "the broker, against one without a console": LOADS,
    "held up, and memory": HOLDS,
    "API": API,
    "time machine: p95": PAST,
    "browser": BROWSER,
    "sizes": SIZES,
}
BUDGETS = tuple(budget for table in TABLES.values() for budget in table)


def ratios(values: dict[str, float], budgets: tuple[Budget, ...]) -> dict[str, float]:
    """The ratios of values that were taken one after the other. Requires: all of them are there."""
    return {budget.judged: values[budget.key] / values[budget.against] for budget in budgets if budget.against}


def measured(budgets: tuple[Budget, ...], results: dict[str, float]) -> tuple[Budget, ...]:
    """Those that there are figures of."""
    return tuple(budget for budget in budgets if budget.judged in results)


def keys(*, browser: bool = True) -> list[str]:
    """Every key of a report, in order."""
    budgets = [budget for budget in BUDGETS if browser or budget not in BROWSER]
    found = [key for budget in budgets for key in (budget.against, budget.key, budget.judged) if key]
    return list(dict.fromkeys(found))
