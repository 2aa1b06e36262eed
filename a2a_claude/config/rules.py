"""The stable ids of all problems. Their explanations, with examples, are in `schema/rules.yaml`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """`code` never changes its meaning; `title` says in a few words what is wrong."""

    code: str
    title: str


RULES = {
    name: Rule(f"A2C{code}", title)
    for code, name, title in (
        # Reading
        (101, "unreadable-file", "A file cannot be read"),
        (102, "file-too-large", "A file is too large"),
        (103, "not-utf-8", "A file is not UTF-8"),
        (104, "control-character", "A control character"),
        (105, "too-many-problems", "Too many problems in a file"),
        (110, "yaml-syntax", "The YAML cannot be parsed"),
        (111, "yaml-tab", "A tab in the indentation"),
        (112, "yaml-colon", "A colon inside a plain value"),
        (113, "yaml-tag", "A YAML tag"),
        (114, "yaml-alias", "A YAML alias that cannot be followed"),
        (115, "second-document", "A second document in a file"),
        (116, "duplicate-key", "A key is written twice"),
        (117, "key-not-string", "A key is not a string"),
        (118, "ambiguous-scalar", "A plain value that YAML versions read differently"),
        (119, "number-range", "A number that JSON or 64 bits cannot hold"),
        (120, "too-deep", "Nesting is too deep"),
        (121, "too-many-values", "Too many values"),
        (122, "not-a-mapping", "A file is not a mapping"),
        (130, "json-syntax", "The JSON cannot be parsed"),
        # Layers
        (201, "agent-name", "A folder name cannot be an agent's name"),
        (202, "two-configs", "Two files could be the agent's config"),
        (203, "no-config", "A folder without an agent's config"),
        (204, "no-agents", "No agents found"),
        (205, "extends-missing", "An extended file does not exist"),
        (206, "extends-cycle", "Files extend each other in a circle"),
        (207, "extends-outside", "An extended file is outside the project"),
        (208, "unused-profile", "A profile matches no file"),
        (209, "no-effect", "An override that changes nothing"),
        (210, "bad-setting", "A --set option that cannot be read"),
        # Schema
        (301, "unknown-key", "An unknown key"),
        (302, "wrong-type", "A value of the wrong type"),
        (303, "not-allowed", "A value that is not one of the allowed ones"),
        (304, "out-of-range", "A value out of range"),
        (305, "bad-format", "Text that does not have the wanted form"),
        (306, "missing-key", "A required key is missing"),
        (307, "not-an-agent", "A file that is no agent config"),
        (308, "null-in-list", "An empty item in a list"),
        (309, "deprecated-key", "A key without effect"),
        # References and secrets
        (401, "bad-reference", "A ${…} reference that cannot be read"),
        (402, "bare-variable", "A $NAME without braces"),
        (403, "literal-credential", "A credential is written into the config"),
        (404, "unset-variable", "A variable is not set"),
        # Fields that must fit together
        (501, "bypass-consent", "bypassPermissions without consent"),
        (502, "nobody-to-ask", "A permission mode that asks, with nobody to ask"),
        (503, "two-prompts", "Two system prompts"),
        (504, "reserved-name", "A reserved MCP server name"),
        (505, "undeclared-marketplace", "A plugin of an undeclared marketplace"),
        (506, "unpinned-marketplace", "A marketplace that is not pinned"),
        (508, "tool-conflict", "A tool both allowed and disallowed"),
        (509, "plan-writes", "Plan mode with tools that write"),
        (510, "mcp-unreachable", "An MCP server whose tools are not allowed"),
        (511, "unknown-model", "A model name that is not known"),
        (512, "no-public-url", "A public address without a public URL"),
        (513, "no-auth", "A public address without authentication"),
        (514, "events-url", "http events without a URL"),
        (515, "duplicate-name", "A name is used twice"),
        (516, "bad-url", "Text that is no URL"),
        (517, "bad-output-schema", "An output schema that is no JSON Schema"),
        (518, "relative-path", "A path that must be absolute"),
        (519, "no-skills", "A card without skills"),
        (520, "store-url", "A store without its URL"),
        (521, "auth-incomplete", "An authentication scheme that lacks something"),
        (522, "signing-key", "Card signing without a key"),
        (523, "replicas-share", "Several replicas without a shared store"),
        (524, "memory-file", "A memory file that cannot be shipped"),
        (525, "unknown-mcp-server", "A sub-agent with an unknown MCP server"),
        (526, "no-workspace", "An agent without a workspace"),
        (527, "never-asked", "An approval that is never asked for"),
        (528, "published-elsewhere", "A published port that the card does not name"),
        (529, "store-unserved", "A store that is not served yet"),
        # Fleet and output
        (601, "port-clash", "Two agents on one port"),
        (701, "cannot-render", "A value that an output format cannot express"),
        (702, "open-image", "A container without authentication"),
    )
}
