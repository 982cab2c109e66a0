"""The paper's continuous grid world (Sec. 5.1): maps, text files, physics, Gymnasium interface and oracle."""
