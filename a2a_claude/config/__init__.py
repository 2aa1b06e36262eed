"""From the text of a config to one typed `Agent`: reading with positions, layers, references, checks, diagnostics."""
