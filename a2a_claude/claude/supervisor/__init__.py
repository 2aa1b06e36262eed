"""The program between the server and one Claude CLI, run as `python -I -S <this folder>`; the standard library alone.

It hands the CLI a chosen environment, takes the credentials out of it where the CLI can read them elsewhere, hides
files from it, and sees to it that nothing of it outlives the server or the CLI.
"""
