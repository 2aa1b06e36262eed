"""What an operator sees of a running server: logs, metrics, and what is kept out of both."""
