"""The server against the servers of a2a-sdk (Python) and @a2a-js/sdk (Node), on the same requests in the same run."""
