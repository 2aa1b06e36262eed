"""Console blocks of the documentation: what is run, what is shown, and where the two differ.

Lines that begin with `$ ` are commands (with the lines of their here-documents), the lines between them are what is
printed, a line `...` stands for any lines, and `...` in a line for any text. Where only `...` is shown, something has
to be printed. A command has to succeed, unless its page shows how it fails: by what it prints, or by `echo $?` as the
next command. The word after `console` says where the commands can be run: nothing for any machine, else the engine that
they need.
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
ENDED = re.compile(rf"{MARK} (\d+)\n")


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


@dataclass(frozen=True)
class Ended:
    """What a command printed, and its exit status."""

    output: str
    code: int


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
    """A script for bash that runs the commands one after the other, and says where each ends and with what status."""
    mark = f"{{ code=$?; printf '%s %s\\n' '{MARK}' $code; (exit $code); }}"
    return "".join(f"{each.text}\n{mark}\n" for each in wanted)


def check(
    wanted: list[Command], shell: Callable[[str], subprocess.CompletedProcess[str]], *, lenient: bool = False
) -> None:
    """Runs the commands by `shell`, which takes a script for bash, and compares what they do with what is shown.

    With `lenient`, as for engines whose commands print or fail as their version does, `...` alone may be nothing, and
    only what is printed is compared.
    AssertionError with the commands that do something else, and what that is.
    """
    found = differences(wanted, run(wanted, shell), lenient=lenient)
    assert not found, "\n".join(found)


def run(wanted: list[Command], shell: Callable[[str], subprocess.CompletedProcess[str]]) -> list[Ended]:
    """What each command prints, and its exit status."""
    printed = shell(script(wanted)).stdout
    parts = ENDED.split(printed)
    assert len(parts) == 2 * len(wanted) + 1, printed
    return [Ended(output, int(code)) for output, code in zip(parts[:-1:2], parts[1::2], strict=True)]


def differences(wanted: list[Command], ended: list[Ended], *, lenient: bool = False) -> list[str]:
    found = []
    following = [each.text for each in wanted[1:]] + [""]
    for each, end, after in zip(wanted, ended, following, strict=True):
        shown, output = _without_end(each.printed), _without_end(end.output.splitlines())
        anything = set(shown) <= {"..."}
        silent = anything and bool(shown) and not output
        failed = anything and end.code != 0 and not re.match(r"echo \$\?( *#.*)?$", after)
        if (not lenient and (silent or failed)) or not re.fullmatch(
            _pattern(shown), "".join(f"{line}\n" for line in output)
        ):
            found.append(f"$ {each.text}\n{end.output}" + (f"exit status {end.code}\n" if end.code else ""))
    return found


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
