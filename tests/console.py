"""Console blocks of the documentation: what is run, what is shown, and where the two differ.

Lines that begin with `$ ` are commands (with the lines of their here-documents), the lines between them are what is
printed, a line `...` stands for any lines, and `...` in a line for any text. The word after `console` says where the
commands can be run: nothing for any machine, else the engine that they need.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
# rules.md is made of schema/rules.yaml, whose examples test_rules.py holds against the rules.
PAGES = sorted(path for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")] if path.name != "rules.md")
FENCE = re.compile(r"^```(\S*)[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
MARK = "----- end of command"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: the words after the fence, the text, and the line it begins on."""

    kind: str
    mark: str
    text: str
    line: int


@dataclass
class Command:
    """A command of a console block, and the lines that it is to print."""

    text: str
    printed: list[str]


def blocks(text: str, kind: str) -> list[Block]:
    return [
        Block(match[1], match[2], match[3], text[: match.start()].count("\n") + 1)
        for match in FENCE.finditer(text)
        if match[1] == kind
    ]


def of_all_pages(*kinds: str) -> list[tuple[Path, Block]]:
    return [(page, block) for page in PAGES for kind in kinds for block in blocks(page.read_text("utf-8"), kind)]


def name(value: object) -> str | None:
    """How a page or a block is called in the id of a test."""
    return (
        str(value.relative_to(ROOT)) if isinstance(value, Path) else f"{value.line}" if hasattr(value, "line") else None
    )


def pages_for(engine: str) -> list[Path]:
    """The pages that have console blocks for an engine; for any machine when it is empty."""
    return [page for page in PAGES if commands_of(page, engine)]


def commands_of(page: Path, engine: str) -> list[Command]:
    """The commands of a page that are for an engine, in order."""
    found = [block for block in blocks(page.read_text("utf-8"), "console") if block.mark == engine]
    return [each for block in found for each in commands(block.text)]


def commands(block: str) -> list[Command]:
    found: list[Command] = []
    end: str | None = None  # of a here-document
    continued = False  # by a backslash
    for line in block.splitlines():
        if end is not None:
            found[-1].text += f"\n{line}"
            end = None if line == end else end
        elif continued or line.startswith("$ "):
            if continued:
                found[-1].text += f"\n{line}"
            else:
                found.append(Command(line[2:], []))
            here = HERE.search(line)
            end = here[2] if here else None
            continued = line.endswith("\\")
        else:
            found[-1].printed.append(line)
    return found


def script(wanted: list[Command]) -> str:
    """A script for bash that runs the commands one after the other, and says where the output of each ends."""
    return "".join(f"{each.text}\n{{ code=$?; printf '%s\\n' '{MARK}'; (exit $code); }}\n" for each in wanted)


def check(wanted: list[Command], shell: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    """Runs the commands by `shell`, which takes a script for bash, and compares what they print with what is shown.

    AssertionError with the commands that print something else, and what that is.
    """
    found = differences(wanted, run(wanted, shell))
    assert not found, "\n".join(found)


def run(wanted: list[Command], shell: Callable[[str], subprocess.CompletedProcess[str]]) -> list[str]:
    """What each command prints."""
    printed = shell(script(wanted)).stdout
    outputs = printed.split(f"{MARK}\n")
    assert len(outputs) == len(wanted) + 1, printed
    return outputs[:-1]


def differences(wanted: list[Command], outputs: list[str]) -> list[str]:
    return [
        f"$ {each.text}\n{output}"
        for each, output in zip(wanted, outputs, strict=True)
        if not re.fullmatch(
            _pattern(_without_end(each.printed)), "".join(f"{line}\n" for line in _without_end(output.splitlines()))
        )
    ]


def _pattern(lines: list[str]) -> str:
    return "".join(
        r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n" for line in lines
    )


def _without_end(lines: list[str]) -> list[str]:
    """Without the empty lines at the end, which a page need not show."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]
