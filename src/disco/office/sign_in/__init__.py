"""Signing in: passwords, sessions, an identity provider, the link of the demo."""
