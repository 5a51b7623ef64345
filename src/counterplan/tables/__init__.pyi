from . import formats as formats
from .draft import draft_schema as draft_schema
from .episodes import read_episodes as read_episodes
from .episodes import write_episodes as write_episodes
from .layout import SchemaLayout as SchemaLayout
from .reader import from_frame as from_frame
from .schema import Column as Column
from .schema import read_schema as read_schema
