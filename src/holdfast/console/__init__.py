"""The console: a process beside the broker that shows what the broker does, over HTTP. It opens no data.

options    what the process is told at its start
console    what it knows of its broker, and the tasks that keep that up to date
live/      the present, by the control socket: numbers, clients, charts, alarms
past/      the past, by the private socket of the history process
access/    who gets in, and the audit
web/       HTTP: a request on its way
api/       every call of the API, with its role and parameters
static/    the page

Read them in this order. Starting and supervising the process is the work of `node.processes.console_main`.
"""
