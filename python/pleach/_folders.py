"""Where the package's own files are: what is compiled against it needs them."""

from pathlib import Path

from pleach import _core

# Beside the extension: in a build folder the Python files may be links to elsewhere.
_PACKAGE = Path(_core.__file__).parent


def library_folder() -> Path:
    """Returns the folder of libpleach.so, which has the C interface."""
    return _PACKAGE / "lib"


def include_folder() -> Path:
    """Returns the folder for `-I`, where `#include <pleach/api/pleach.h>` is found."""
    return _PACKAGE / "include"
