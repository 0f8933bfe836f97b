"""Measures layouts on real databases: `holdfast bench layouts`, and the trial of learned patterns.

Read `layout_bench.py` first; `layout_workload.py` has its messages and filters, `layout_report.py` its table.
"""
