"""One module per command, thin: parse, call, print. Exit codes: 0 fine, 1 invalid, 2 usage or I/O, 3 drift."""
