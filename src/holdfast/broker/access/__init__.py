"""Who may come in, and what they may do: password file, access file, block file, and the verdict on a CONNECT.

    authenticator ──► passwords ──► hashes                 who is it?
         ├──────────► check_queue, logins                  whose password is checked next, and need it be?
         └──────────► rules ──► exchange.access            what may this client do?
                        (both files: text_file)
    block_administration ──► blocks ──► files.block_file   who may not come in, whatever it proves?

Nothing here puts a password or a hash into a message, a log line or a `repr`.
"""
