"""Client queues in files: a folder for each client, and one shared file that makes appending safe for all of them.

store           the contract `QueueStore` over one thread, which does all file work
journal         all queues, for that thread: changes are gathered, committed together, and applied
append_plan     which messages of an append batch a queue takes, drops or refuses
queue_folders   the folder of each queue, and moving queues to other folders
queue/          one queue: its state, its message files, how it is loaded and changed
commit/         the commit file of all queues, its checkpoint, and the recovery after a crash
view, quarantine     reading beside a broker, what cannot be read
"""
