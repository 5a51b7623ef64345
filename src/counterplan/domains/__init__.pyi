from . import icu_episodes as icu_episodes
from . import icu_sepsis as icu_sepsis
from . import interacting as interacting
from . import sepsis as sepsis
from .basket import OptionBasket as OptionBasket
from .bunkering import Bunkering as Bunkering
from .hybrid import HybridVehicle as HybridVehicle
from .options import AmericanOption as AmericanOption
