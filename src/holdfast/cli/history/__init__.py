"""Commands that read stored messages: `history` (the server, in `command`), `export`, `events`, `explain`, `token`."""
