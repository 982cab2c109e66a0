"""Adapting a trained SafeDSR agent to new costs (Sec. 5.4), rung by rung.

`refit`: new cost weights in closed form. `penalty`: a new λ. `successor`: M goes on learning from what the policy
remembers. `full`: everything but φ goes on learning in the new environment. `climb` goes up as far as it has to.
"""
