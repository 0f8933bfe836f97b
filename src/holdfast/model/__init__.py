"""The words every other package speaks: protocol numbers, reasons, errors, ids, messages, time. Pure."""
