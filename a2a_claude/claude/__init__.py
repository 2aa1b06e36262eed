"""A message becomes a Claude turn: options, live CLI processes, and the translation of what they say into A2A events."""
