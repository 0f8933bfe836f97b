"""Files on disk: the one place that replaces, locks and syncs them.

    replacement     a file gets its new content as a whole or not at all; JSON files with a version
    folders         folders made, removed and synced, many at a time
    lock            a lock of the kernel on a file or a folder
    private         files and folders that only their owner may read
    private_socket  a Unix socket that no other user can connect to
    socket_path     where the sockets of a data folder lie, and what its lock file says
    socket_peer     which user is at the other end of a socket

Nothing here knows what the bytes mean. Errors are OSError, which callers translate; they know what the file is for.
"""
