"""What every other package uses: protocol numbers, reasons, errors, ids, messages, time. Pure.

Begin with errors (the families say what a caller has to do), message, and owed (a message that a client is to get).
"""
