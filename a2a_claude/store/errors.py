"""What goes wrong with the store, in words an operator can act on."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot be opened, read or written; the message names the file, the cause and what to do."""
