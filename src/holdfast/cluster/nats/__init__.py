"""Ordered logs on NATS JetStream: the servers, the connection to them, and a log on a stream.

protocol          frames of the NATS protocol, without sockets; `link` is one connection to one server
connection        requests to any of the servers, and what their failures mean
streams           the JetStream stream of each log: how it is made, and how its settings are checked
log               the contract `durable/ordered_log` on such a stream; `reader` is the pull loop of one reader
append_watchdog   when the leader of a stream that answers no append is asked to step down; `stamp_watch` when its
                  stamps are wrong
server            a server as a child process; `parent_death` ends it with the broker
monitor           what a server reports about itself, and whether that is enough
replaced_servers  names of servers that have lost their disk are removed from the servers' group
"""
