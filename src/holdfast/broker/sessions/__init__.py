"""Sessions: begun, resumed, left behind, ended.

Read `sessions`, then `session_restore` (a stored session becomes a client again), `session_recovery` (after a start of
the broker) and `wills`. `slices` divides long work among iterations of the loop.
"""
