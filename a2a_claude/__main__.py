from a2a_claude.cli import main

main(prog_name="a2a-claude")
