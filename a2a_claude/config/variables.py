"""The variables an agent needs, and their values when it is served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from a2a_claude.config.agent import Use, Variable
from a2a_claude.config.credentials import holds_secret, is_secret_name
from a2a_claude.config.diagnostics import Diagnostic, Span, error, warning
from a2a_claude.config.inspection import Mention
from a2a_claude.config.node import Entry, Node, dotted
from a2a_claude.config.node import Path as ConfigPath
from a2a_claude.config.references import Reference, references, resolve

_NAMED: tuple[ConfigPath, ...] = (
    ("agentCard", "signing", "privateKeyJwkEnvVar"),
    ("server", "auth", "bearer", "tokensVariable"),
    ("server", "auth", "apiKey", "keysVariable"),
)
"""Keys whose value is the name of a variable that holds a credential."""
_MODEL: ConfigPath = ("claude", "model")
RUN_SECRETS = Path("/run/secrets")


def collect(
    document: Mapping[str, Any], root: Node, mentions: Iterable[Mention], where: Callable[[Span], str] = str
) -> tuple[Variable, ...]:
    """Every variable that the document refers to, sorted by name; `where` tells a place."""
    uses: dict[str, list[tuple[ConfigPath, Span, Reference]]] = {}
    for each in mentions:
        if each.reference is not None:
            uses.setdefault(each.reference.name, []).append((each.path, each.span, each.reference))
    for path in _NAMED:
        found = root.find(path)
        if isinstance(found, Entry) and isinstance(found.node.value, str):
            uses.setdefault(found.node.value, []).append((path, found.node.span, Reference(found.node.value)))
    declared = {*document.get("secrets", {}), *document["claude"].get("credentials", ())}
    return tuple(_variable(name, uses[name], name in declared, where) for name in sorted(uses))


def _variable(
    name: str, uses: list[tuple[ConfigPath, Span, Reference]], declared: bool, where: Callable[[Span], str]
) -> Variable:
    defaults = [reference.default for _, _, reference in uses if reference.default is not None]
    return Variable(
        name=name,
        secret=declared or is_secret_name(name) or any(holds_secret(path) or path in _NAMED for path, _, _ in uses),
        required=any(
            reference.default is None and not reference.bare and not _may_be_unset(path) for path, _, reference in uses
        ),
        default=defaults[0] if defaults else None,
        uses=tuple(Use(dotted(path), where(span)) for path, span, _ in uses),
    )


def _may_be_unset(path: ConfigPath) -> bool:
    """An unset model is Claude's default one; a sub-agent whose token is unset is called without authentication."""
    return path == _MODEL or _is_token(path)


def _is_token(path: ConfigPath) -> bool:
    return path[:2] == ("subAgents", "agents") and path[-2:] == ("auth", "token")


def lookup(environ: Mapping[str, str]) -> Callable[[str], str | None]:
    """Finds the value of a variable: a credential of systemd, a secret of the container, the file that `NAME_FILE`
    names, or the environment, in this order. A final line break of a file is dropped."""

    def find(name: str) -> str | None:
        for path in _places(environ, name):
            try:
                return path.read_bytes().decode("utf-8").removesuffix("\n").removesuffix("\r")
            except (OSError, ValueError):  # not there, not UTF-8, or no path at all
                continue
        return environ.get(name)

    return find


def unreadable(environ: Mapping[str, str], names: Iterable[str]) -> dict[Path, str]:
    """The files of variables of these names that `lookup` passes over though they are there, and why."""
    found = {}
    for name in names:
        for path in _places(environ, name):
            try:
                path.read_bytes().decode("utf-8")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                found[path] = error.strerror or str(error)
            except ValueError:
                found[path] = "Not UTF-8 text"
    return found


def secret_paths(environ: Mapping[str, str], names: Iterable[str]) -> list[Path]:
    """Where `lookup` finds secrets of these names: folders, and the files that `NAME_FILE` names."""
    return [*_folders(environ), *(path for name in names for path in _named_file(environ, name))]


def _places(environ: Mapping[str, str], name: str) -> list[Path]:
    return [*(folder / name for folder in _folders(environ)), *_named_file(environ, name)]


def _folders(environ: Mapping[str, str]) -> list[Path]:
    return [*map(Path, filter(None, [environ.get("CREDENTIALS_DIRECTORY")])), RUN_SECRETS]


def _named_file(environ: Mapping[str, str], name: str) -> list[Path]:
    return [*map(Path, filter(None, [environ.get(f"{name}_FILE")]))]


def resolve_document(
    document: Mapping[str, Any], mentions: Iterable[Mention], find: Callable[[str], str | None]
) -> tuple[dict[str, Any], list[Diagnostic]]:
    """`document` with its references replaced by values, and the variables that are not set.

    An unset variable without a default is an error. There are three exceptions, each a warning: `claude.model` is
    cleared, a sub-agent's `auth` is dropped when its token is unset, and a bare `$NAME` stays as it is.
    """
    out: dict[str, Any] = _copy(document)
    diagnostics: list[Diagnostic] = []
    places: dict[ConfigPath, Span] = {}
    for each in mentions:
        places.setdefault(each.path, each.span)
    without_token: list[ConfigPath] = []
    for path, span in places.items():
        parent = _at(out, path[:-1])
        text = parent[path[-1]]
        value, missing = resolve(text, find)
        parent[path[-1]] = value
        # An empty value is as good as none where the agent can do without one.
        blank = not value.strip() and (path == _MODEL or _is_token(path))
        if path == _MODEL and (missing or blank):
            del parent[path[-1]]
        elif _is_token(path) and (missing or blank):
            without_token.append(path[:-2])
        diagnostics += [_unset(each, path, span) for each in (references(text) if blank else missing)]
    for path in without_token:
        del _at(out, path)["auth"]
    return out, diagnostics


def _unset(reference: Reference, path: ConfigPath, span: Span) -> Diagnostic:
    name, where = reference.name, dotted(path)
    hint = f"set {name} in the environment, or supply it as a secret file"
    if path == _MODEL:
        return warning("unset-variable", f"{name} is not set, so Claude's default model is used", span, hint)
    if _is_token(path):
        return warning("unset-variable", f"{name} is not set, so this sub-agent is called without it", span, hint)
    if reference.bare:
        return warning("unset-variable", f"{name} is not set, so {where} keeps ${name}", span, hint)
    reason = reference.message or f"{name} is not set, and {where} needs it"
    if reference.message:
        reason = f"{name} is not set, and {where} needs it: {reference.message}"
    return error("unset-variable", reason, span, f"{hint}, or give a default: ${{{name}:-…}}")


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copy(each) for each in value]
    return value


def _at(document: Any, path: ConfigPath) -> Any:
    for step in path:
        document = document[step]
    return document
