"""Small stories of the broker, told in every order of their steps."""
