"""The compiler against check-jsonschema, which only validates, on the same files in the same run."""
