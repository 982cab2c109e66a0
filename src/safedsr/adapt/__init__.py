"""Adaptation of a trained SafeDSR agent to new costs (Sec. 5.4), in four levels (rungs).

Level "cost" (`refit`): new cost weights in closed form. "penalty" (`penalty`): a new λ. "memory" (`successor`): M is
trained further from the replay memory. "full" (`online`): everything but φ is trained further in the new environment.
`ladder` applies the levels one after another.
"""
