"""The rules of a session: packet ids, in-flight messages, subscriptions, groups. Pure."""
