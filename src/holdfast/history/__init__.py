"""Stored messages read beside the broker, by the history process or a command, without the broker's time or memory.

    reader/         a RocksDB secondary of the data folder: what there is to read, and its messages
    arrow/          messages as Arrow record batches, and these as Parquet, CSV and JSON lines
    tables/         sessions, queues and retained messages as tables
    flight/ http/   the two ports of the history process; `servers` runs them, `tokens` says who may read
    past/           what the console asks, over a private socket, without Arrow
    export, explanation, patterns    what commands and jobs ask for
    without_pandas  keeps what pyarrow would import out of the history process

Begin with `reader.view` (parts of the history) and `reader.reader` (messages of a part).
"""
