"""The path of messages: a buffer's packets become appends, acknowledgements, deliveries and frames. Pure, compiled.

exchange         bytes in, one iteration of the loop, receipts            loop_state   what all parts share
inbound          PUBLISH and acknowledgements of clients                  intake       messages that are taken
plans            which clients get the messages of a topic                client       connections, clients, groups
delivery/        from messages to clients                                 external/    external queues
control          the contract of the broker around it                     access       rights of a client
"""
