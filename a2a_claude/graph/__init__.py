"""A fleet as a graph: who listens where, who calls whom, with which permissions and secrets."""
