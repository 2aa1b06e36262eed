"""Other A2A agents as tools of this one: their cards, credentials, calls and answers. Knows A2A and HTTP, no CLI."""
