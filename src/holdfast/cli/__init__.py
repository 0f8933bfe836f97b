"""The command `holdfast`. Begin with `main`, which lists all commands, and `commands`, which says what they share.

A command reads its options, calls one function of another package, and prints the result. It is imported when it is
called, so that `holdfast --help` stays quick. Commands on a running broker stand here; `history`, `queue`, `spark` and
`storage` hold those of a noun; `options` and `output` are what several commands read and print with.
"""
