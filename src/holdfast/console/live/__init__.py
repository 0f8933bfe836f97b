"""The present: what the broker says, kept and judged.

broker_link     the control socket
live_stats      the last numbers; `charts` keeps them on disk (`ring_file`), `alarms` judges them
metrics_text    numbers of the broker and of the console (`own_numbers`) for Prometheus
client_table    clients, searched and sorted; `client_watch` asks for them while somebody looks
"""
