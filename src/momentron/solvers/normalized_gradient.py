"""Gradient descent with normalised gradients: O(1/t) with θ = 1, O(1/√t) with θ_t = 1/√(t+1)."""

from momentron.solvers.gradient_descent import Descent, DescentState
from momentron.solvers.margin_problem import MarginProblem
from momentron.solvers.schedules import inverse_root_step


class NormalizedGradient(Descent):
    """w_{t+1} = w_t − (θ_t/ρ) ∇R(w_t)/R(w_t): momentum's method without the momentum.

    Parameters
    ----------
    step : float or callable
        θ_t; the paper takes 1.

    References
    ----------
    Ji and Telgarsky (2021), ALT (θ = 1); Nacson et al. (2019), AISTATS (θ_t = 1/√(t+1)).
    """

    name = "normalized-gradient"

    def coefficient(self, problem: MarginProblem, state: DescentState) -> float:
        return float(self.step_size(state.t)) / problem.rho


class NormalizedGradientRoot(NormalizedGradient):
    """`NormalizedGradient` with θ_t = 1/√(t + 1)."""

    name = "normalized-gradient-root"

    def __init__(self) -> None:
        super().__init__(inverse_root_step)
