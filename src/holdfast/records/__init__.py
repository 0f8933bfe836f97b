"""What is written to disk, byte by byte, apart from where it is kept. Pure; docs/formats.md shows every byte.

Read `fields.py` (the types of fields) and `messages.py` first. The log: `pages/`, `generations.py`, `positions.py`,
`head_marks.py`, `lanes.py`, `meta_keys.py`. Sessions and groups: `session/`. Cursors of replays: `cursors.py`. The logs
of a cluster: `cluster/`. A stored format is never edited: it gets a new version, and the old one stays readable.
"""
