"""resource-gathering of MO-Gymnasium: gold and a gem, and enemies that may kill, which is the cost.

    pip install "safedsr[envs]"
    safedsr train safedqn --env resource-gathering-v0 --reward-entries 1 2 --cost-entries=-0 \\
        --budget-kind discounted-mean --gamma 0.95 --budget 0.02 --steps 100000 --out runs/gathering

The known front of discounted returns (γ = 0.95), as (death, gold, gem): (0, 0, 0.599), (0, 0.540, 0) and
(-0.070, 0.439, 0.439). So without any death 0.599 is possible, and 0.878 with a discounted death of 0.070.
"""
