"""The control socket between a broker and those who look at it or direct it: the console and the command line.

words      what is said: a struct for each request, answer and push
frames     bytes to words and back
metrics    every number that a broker reports, with its meaning

Pure: no socket, no clock. The server is in `node`; the console and the command line have a client each.
"""
