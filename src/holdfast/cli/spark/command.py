"""`holdfast spark`: jobs over all of history, on Spark."""

from typing import Final

from holdfast.cli.commands import Commands

COMMANDS: Final = {
    "spark.archive.archive": (
        "Archive stored messages in a table of Delta or Iceberg: once, or repeatedly. It may be killed and run again."
    ),
    "spark.audit.audit": (
        "Prove that history is whole and in order, and that each session is owed what its queue holds."
    ),
    "spark.learn.learn": (
        "Learn which patterns the topics of all history follow, and explain them. The broker may run meanwhile."
    ),
    "spark.load.load": "Load history into the log, with its own times. It may be killed at any time and run again.",
    "spark.migrate.migrate": (
        "Copy client queues into another backend, compared message by message. It may be killed and run again."
    ),
    "spark.relayout.relayout": (
        "Rewrite old generations, or restore them from a lake. It may be killed at any time and run again."
    ),
    "spark.replay.replay": (
        "Publish stored messages again, into a broker: in their order, once, at any speed. It may be killed and go on."
    ),
    "spark.report.report": (
        "Make a page with pictures: traffic, patterns, heaviest topics, sizes, gaps, drops, sessions."
    ),
    "spark.retain.retain": (
        "Drop old days of a lake, compact it, or erase a client or topics, in the lake and in the broker's history."
    ),
    "spark.run.run": (
        "Run a declared pipeline: decode, check, de-duplicate, aggregate; into Delta tables and back into a broker."
    ),
    "spark.sql.sql": "Run SQL over the views history, sessions, queues and retained. The broker may run meanwhile.",
}

spark = Commands(name="spark", help="Jobs over all of history, on Spark.", lazy=COMMANDS)
