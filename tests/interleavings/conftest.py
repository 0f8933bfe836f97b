"""How many orders were told, at the end of the run."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.stats.get("passed", [])
    orders = sum(value for report in reports for name, value in report.user_properties if name == "orders")
    if orders:
        terminalreporter.write_line(f"interleavings: {orders} orders of steps, each to its end")
