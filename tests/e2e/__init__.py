"""What `compile` renders, run for real: a module per platform, each with the real CLI against an API on loopback.

`pytest -s tests/e2e` also prints what each platform measures.
"""
