"""SafeDSR-plus, the recommended agent."""
