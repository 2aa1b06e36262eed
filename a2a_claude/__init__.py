"""a2a-claude: a declarative agent config becomes a hardened Claude agent that other agents call over A2A."""

__version__ = "0.1.0"
