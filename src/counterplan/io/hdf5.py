"""Arrays in HDF5 files, which may point anywhere: only what lies in the file itself is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplan.errors import FileError, InputError, not_installed
from counterplan.files.contents import check_readable

LARGEST_ARRAY = 2**31


def import_h5py() -> Any:
    """The library, or an error that says how to get it."""
    try:
        import h5py
    except ImportError:
        raise InputError(not_installed("reading HDF5 needs h5py", "minari")) from None
    return h5py


def check_hdf5(path: str | Path) -> None:
    """Raise unless there is a file and a library to read it."""
    import_h5py()
    check_readable(path, "an HDF5 file")


@contextmanager
def hdf5_file(path: str | Path) -> Iterator[Any]:
    """An HDF5 file opened for reading; whatever is wrong with it is a FileError."""
    h5py = import_h5py()
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (InputError, FileError):
        raise
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError) as problem:
        reason = (str(problem).splitlines() or [type(problem).__name__])[0][:200]
        raise FileError(f"{path}: is damaged or no HDF5 file: {reason}; write it anew") from None


def entry(path: str | Path, group: Any, name: str) -> Any:
    """A group or array that lies in the file itself."""
    h5py = import_h5py()
    link = group.get(name, getlink=True)
    if link is None:
        raise FileError(f"{path}: has no {name!r}; is it a dataset of this kind?")
    if not isinstance(link, h5py.HardLink):
        raise FileError(f"{path}: {name!r} points elsewhere, which is not followed; copy it in")
    found = group[name]
    if isinstance(found, h5py.Dataset) and (found.is_virtual or found.external):
        raise FileError(f"{path}: {name!r} lies in other files, which are not read; copy it in")
    return found


def array(path: str | Path, group: Any, name: str) -> NDArray[Any]:
    """(n, D) the numbers of an array of one or more dimensions; the type of whole ones is kept."""
    found = entry(path, group, name)
    if not hasattr(found, "dtype") or found.dtype.kind not in "biuf":
        raise FileError(f"{path}: {name!r} holds no numbers; only these can be a table")
    if found.ndim == 0 or found.size * 8 > LARGEST_ARRAY:
        raise FileError(f"{path}: {name!r} has shape {found.shape}: no array that fits a table")
    numbers = np.asarray(found[()], dtype=None if found.dtype.kind in "iu" else np.float64)
    return numbers.reshape(len(numbers), -1)
