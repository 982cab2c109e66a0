"""Says when the certificate of a policy no longer holds, from the costs of the episodes in the field. Needs no NumPy.

A certificate says that at most a share `rate` of all episodes exceeds a budget. The monitor bets against it: its
wealth is the mean of likelihood ratios of larger shares q against `rate`. While the true share is at most `rate`, the
wealth is a supermartingale that starts at 1, so the probability that it ever reaches 1 / alpha is at most alpha
(Ville's inequality). One may look after every episode and stop at any time. Episodes have to be independent.
"""

import math


class Monitor:
    """Counts episodes; `holds` is False once the certificate no longer holds.

    `rate` is the certified upper bound of the share of episodes over budget, `alpha` the probability of a false alarm.
    """

    def __init__(self, budgets, rate, alpha=0.01):
        if not (0 < rate < 1 and 0 < alpha < 1):
            raise ValueError(f"rate is {rate} and alpha is {alpha}; give shares between 0 and 1")
        self.budgets, self.rate, self.alpha = tuple(budgets), rate, alpha
        self.shares = [rate + (1 - rate) / 2**j for j in range(1, 13)]  # of the alternatives q
        self.cost = [0.0] * len(self.budgets)  # of the running episode
        self.episodes = self.violations = 0
        self.holds = True

    @classmethod
    def of(cls, certificate, alpha=0.01):
        """The monitor of a certificate that passed, as JSON, such as `json.load(open("certificate.json"))`."""
        if not certificate["passed"]:
            raise ValueError("this certificate did not pass, so it claims nothing that could be monitored")
        return cls(certificate["budgets"], certificate["violation"]["bound"], alpha)

    def step(self, cost, done):
        """Count the costs of one step, and the episode if this was its last step; returns `holds`."""
        costs = cost if hasattr(cost, "__len__") else [cost]
        self.cost = [total + float(one) for total, one in zip(self.cost, costs, strict=True)]
        if done:
            self.episode(self.cost)
            self.cost = [0.0] * len(self.budgets)
        return self.holds

    def episode(self, cost):
        """Count an episode with these total costs; returns `holds`."""
        self.episodes += 1
        if any(one > budget + 1e-6 * max(budget, 1) for one, budget in zip(cost, self.budgets, strict=True)):
            self.violations += 1
            self.holds = self.holds and self.evidence < -math.log(self.alpha)  # it rises at violations only
        return self.holds

    @property
    def evidence(self):
        """The evidence against the certificate: the logarithm of the wealth, 0 at the start."""
        k, n, p = self.violations, self.episodes, self.rate
        logs = [k * math.log(q / p) + (n - k) * math.log((1 - q) / (1 - p)) for q in self.shares]
        most = max(logs)
        return most + math.log(sum(math.exp(one - most) for one in logs) / len(logs))
