"""Alembic runs this file: the changes happen on the connection, and in the transaction, of whoever asks for them."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
