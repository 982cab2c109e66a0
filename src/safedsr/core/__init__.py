"""Parts of agents that need no environment: networks, replay memory, schedules, multipliers, normalisation."""
