"""The broker around the path of messages: what happens per connection, per session and per control packet.

broker           the parts put together               policy    the settings it keeps
connections/     from accept to CONNACK to close      stores    what it keeps its state in
sessions/        begun, resumed, left, ended          access/   who may come in, and do what
subscriptions/   SUBSCRIBE, groups, replays           external/ workers of external queues
"""
