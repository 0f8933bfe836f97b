"""Has a call of `holdfast` made by the server of `holdfast_shim.py`. It imports little: it runs once for each call."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.environ["HOLDFAST_SOCKET"])
    question = {"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}
    socket.send_fds(server, [json.dumps(question).encode()], [0, 1, 2])
    answer = server.recv(1)
# Nothing, if the call was killed.
sys.exit(answer[0] if answer else 137)
