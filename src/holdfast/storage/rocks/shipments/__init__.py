"""Generations made by a job beside the broker: loaded messages, and sealed generations in another layout.

A job learns the structure of topics (`parallel_learning.py`), lays out keys and values in parallel
(`parallel_layout.py`), writes SST files (`sst_files.py`), reads them back (`trial_database.py`) and leaves them in the
data folder as a shipment (`shipment.py`). The process that has the database ingests them: `ingestion.py`, one step at a
time in a running broker: `ingestion_worker.py`.
"""
