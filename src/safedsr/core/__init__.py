"""Networks, replay memory, schedules, multipliers, normalisation: the pieces of agents, without an environment."""
