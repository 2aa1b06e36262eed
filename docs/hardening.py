"""Writes what is derived from a2a_claude/targets/hardening.py: run it after each change there.

    python docs/hardening.py            writes the files
    python docs/hardening.py --check    exits 1 and names the files that are not current

Derived: nix/hardening.json (read by nix/module.nix) and the tables of docs/hardening.md.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from a2a_claude.targets.hardening import PROFILES, Directive, directives

ROOT = Path(__file__).parent.parent


def as_json() -> str:
    """`{profile: {directive: value or list of values}}`, for systemd 252, the oldest supported."""
    return json.dumps({each: directives(each) for each in PROFILES}, indent=2) + "\n"


def table(chosen: list[Directive]) -> str:
    """A Markdown table of directives and what they cost."""
    rows = ["| directive | what it costs the agent |", "|---|---|", *map(_row, chosen)]
    return "\n".join(rows)


def _row(directive: Directive) -> str:
    values = (directive.value,) if isinstance(directive.value, str) else directive.value
    shown = "<br>".join(f"`{directive.name}={value}`" for value in values)
    since = f" (systemd {directive.since})" if directive.since > 252 else ""
    return f"| {shown}{since} | {directive.cost} |"


def tables() -> dict[str, str]:
    """The tables of docs/hardening.md by the name of their place: of both profiles, and of one alone."""
    strict, sandbox = PROFILES["strict"], PROFILES["cli-sandbox"]
    return {
        "both": table([each for each in strict if each in sandbox]),
        "strict": table([each for each in strict if each not in sandbox]),
        "cli-sandbox": table([each for each in sandbox if each not in strict]),
    }


def page(text: str) -> str:
    """The text of docs/hardening.md with its tables made current."""
    for name, made in tables().items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = place.sub(lambda match, made=made: f"{match[1]}{made}\n{match[2]}", text)  # type: ignore[misc]
    return text


def main() -> int:
    markdown = ROOT / "docs" / "hardening.md"
    derived = {markdown: page(markdown.read_text("utf-8")), ROOT / "nix" / "hardening.json": as_json()}
    stale = [path for path, text in derived.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        if "--check" in sys.argv:
            print(f"{path.relative_to(ROOT)} is not current: run python docs/hardening.py", file=sys.stderr)
        else:
            path.write_text(derived[path], "utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
