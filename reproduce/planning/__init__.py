"""From an investigation file to a sealed plan, or why it cannot be one."""
