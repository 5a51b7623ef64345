from .planning.cuts import Cuts as Cuts
from .planning.lattice_value import OnLattice as OnLattice
from .planning.least_squares import LeastSquares as LeastSquares
from .planning.policies import Greedy as Greedy
from .planning.policies import OpenLoop as OpenLoop
from .planning.policies import Optimal as Optimal
from .planning.policies import Resolve as Resolve

__all__: list[str]
