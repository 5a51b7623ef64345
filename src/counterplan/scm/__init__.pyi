from .estimate import Pooled as Pooled
from .estimate import count_transitions as count_transitions
from .estimate import estimate_mdp as estimate_mdp
from .estimate import neighbour_prior as neighbour_prior
from .point import PointSCM as PointSCM
from .point import PostNonlinearSCM as PostNonlinearSCM
from .point import Scaling as Scaling
from .training import Training as Training
