"""Measures layouts on real databases: `holdfast bench layouts`, and the trial of learned patterns.

Read `layout_bench.py` first; `layout_workload.py` has its messages and filters, `reader_turns.py` its
readers that take turns, `layout_report.py` its table.
"""
