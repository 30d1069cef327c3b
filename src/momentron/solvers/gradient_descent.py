"""Gradient descent on the empirical risk: the O(1/ln t) baseline."""

from momentron.solvers.descent import Descent, DescentState
from momentron.solvers.margin_problem import MarginProblem
from momentron.solvers.schedules import Schedule, as_schedule


class GradientDescent(Descent):
    """w_{t+1} = w_t − η_t ∇R(w_t), R the average loss (least over the intercept, if there is one).

    Parameters
    ----------
    step : float or callable
        η_t > 0; the paper takes 1.

    References
    ----------
    Soudry, Hoffer, Nacson, Gunasekar, Srebro (2018), JMLR 19.
    """

    name = "gradient-descent"

    def __init__(self, step: float | Schedule = 1.0) -> None:
        self.step_size = as_schedule(step)

    def coefficient(self, problem: MarginProblem, state: DescentState) -> float:
        return float(self.step_size(state.t)) * problem.risk_slope(state.psi)
