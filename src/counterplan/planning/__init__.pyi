from . import processes as processes
from .model import State as State
