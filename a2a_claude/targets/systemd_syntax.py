"""How text is written in a unit file so that systemd reads it back unchanged: systemd.syntax(7), systemd.unit(5).

Every function takes the text and `origin`, the config path it came from; `Unrenderable` is for what systemd cannot
read.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, ip_address
from urllib.parse import quote

from a2a_claude.targets import Unrenderable
from a2a_claude.targets.template import Quoted

# A colon separates the parts of BindPaths=, but not in quotes.
_PLAIN = re.compile(r"[A-Za-z0-9_./@,+=-]+")
_NOT_IN_PROGRAMS = frozenset("\"'\\$")
_IN_URLS = "%:/?#[]@!$&()*+,;=-._~"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
# systemd ignores a whole line that holds one of these (unichar_is_valid in its utf8.c).
_NONCHARACTERS = "".join(chr(plane << 16 | code) for plane in range(17) for code in (0xFFFE, 0xFFFF))
_NO_CHARACTER = re.compile(f"[\ud800-\udfff\ufdd0-\ufdef{_NONCHARACTERS}]")
_GLOB = frozenset("*?[\\")


def line(text: str, origin: str) -> Quoted:
    """A value that is read up to the end of its line (`Description=`): only `%` is special."""
    _check(text, origin)
    if text != text.strip(" ") or text.endswith("\\"):
        raise Unrenderable(origin, "begins or ends with a space, or ends with a backslash", "rename it")
    return Quoted(text.replace("%", "%%"))


def word(text: str, origin: str) -> Quoted:
    """One word of a list (`Environment=`): quoted where needed."""
    _check(text, origin)
    if _PLAIN.fullmatch(text):
        return Quoted(text)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return Quoted(f'"{escaped}"')


def url(text: str, origin: str) -> Quoted:
    """A URL of `Documentation=`. What may not stand in one is percent-encoded (RFC 3986), and so are single quotes."""
    _check(text, origin)
    return Quoted(quote(text, safe=_IN_URLS).replace("%", "%%"))


def path(text: str, origin: str, prefix: str = "") -> Quoted:
    """One path of a list (`BindPaths=`, `InaccessiblePaths=`), behind its `prefix`."""
    return word(prefix + _absolute(text, origin), origin)


def path_line(text: str, origin: str) -> Quoted:
    """A path that is read up to the end of its line (`LoadCredential=`)."""
    return line(_absolute(text, origin), origin)


def path_pattern(text: str, origin: str) -> Quoted:
    """The path of `EnvironmentFile=`, which is read as a pattern: the characters that make it one are refused."""
    if set(text) & _GLOB:
        raise Unrenderable(origin, "is read as a pattern for its *, ?, [ or backslash", "rename the file")
    return path_line(text, origin)


def path_argument(text: str, origin: str) -> Quoted:
    """A path as an argument of `ExecStart=`, where `$` starts a variable as well."""
    return Quoted(path(text, origin).replace("$", "$$"))


def executable(text: str, origin: str) -> Quoted:
    """The program of `ExecStart=`: systemd starts none with quotes or backslashes, and expands `$` in argv[0] alone."""
    if set(text) & _NOT_IN_PROGRAMS:
        raise Unrenderable(origin, "has a quote, backslash or dollar sign in it", "install it under another name")
    return path(text, origin)


def name(text: str, origin: str, pattern: str) -> Quoted:
    """A name that must match `pattern` as a whole; it is written as it is."""
    if not re.fullmatch(pattern, text):
        raise Unrenderable(origin, f"{text!r} does not match {pattern}", "rename it")
    return Quoted(text)


def directive(name: str, value: str | tuple[str, ...]) -> list[Quoted]:
    """The lines of a directive of our own tables, whose values are written in systemd's syntax."""
    return [Quoted(f"{name}={each}") for each in ([value] if isinstance(value, str) else value)]


def socket_address(host: str, port: int, origin: str) -> Quoted:
    """`ListenStream=` for an IP address, or for `localhost`: socket units look no names up."""
    try:
        address = ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise Unrenderable(origin, "is a name, but a socket unit needs an address", "write its address") from None
    if isinstance(address, IPv4Address):
        return Quoted(f"{address}:{port}")
    if address.scope_id:
        raise Unrenderable(origin, "has a zone, which a socket unit cannot have", "leave out the part from %")
    return Quoted(f"[{address}]:{port}")


def comment(text: str) -> Quoted:
    """Text behind a `#`, on one line whatever it holds. A backslash at its end would swallow the next line."""
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)
    return Quoted(shown + " ." if shown.endswith("\\") else shown)


def _check(text: str, origin: str) -> None:
    if found := _CONTROL.search(text):
        raise Unrenderable(origin, f"has the control character U+{ord(found[0]):04X}", "remove it")
    if found := _NO_CHARACTER.search(text):
        raise Unrenderable(origin, f"has U+{ord(found[0]):04X}, which is no character", "remove it")


def _absolute(text: str, origin: str) -> str:
    """`text` when systemd accepts it as a path: other ones it drops with a warning (path_is_normalized, PATH_MAX)."""
    parts = text.split("/")
    if parts[0] or {".", ".."} & set(parts):
        raise Unrenderable(origin, "is no absolute path, or has . or .. in it", "write the whole path")
    sizes = [len(each.encode("utf-8", "surrogatepass")) for each in parts]
    if max(sizes) > 255 or sum(sizes) + len(parts) > 4096:
        raise Unrenderable(origin, "is longer than a path may be", "shorten it")
    return text
