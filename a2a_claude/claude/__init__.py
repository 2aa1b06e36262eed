"""A message becomes a Claude turn: options, live processes, and what they say as A2A events."""
