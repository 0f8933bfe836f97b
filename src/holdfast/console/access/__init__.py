"""Who gets in, and what was changed by whom: credentials, logins, one-time links, identities, the audit file."""
