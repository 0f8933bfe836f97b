"""The audit: proofs over all of history, and over what sessions are owed of it."""
