"""From messages to clients. Read `delivery` (by a plan, and from a queue), then `sender` (to one client).

delivery             deliver a message to all clients of its plan, or QoS 1 early; pump what waits for one client
sender               one message to one client: now, into its queue, or after its commit
progress_queue       sessions and groups that have come further than is stored, on their way to a batch
retained_sender      retained messages for new subscriptions      replay_sender      history, at a pace
group_delivery       shared subscriptions; `pick_member` picks the member that gets a message
unstored_delivery    QoS 1 while writes fail
frames               PUBLISH frames made for one client
"""
