"""What is pickled carries a mark of its format: another format is refused, never misread.

The same holds for whatever else asks objects for their state: copies, joblib and skops.
"""

import sys
from typing import Any

from momentron.errors import InputError
from momentron.status import Status

FORMAT = 1  # raised whenever what results or estimators keep changes its meaning
STATUSES = {"status", "status_"}  # which files of skops hold as the sentences that they are
MARK, WRITER = "_momentron_format", "_momentron_version"


class Marked:
    """Objects whose state says which format it is in, and which version wrote it."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**(state or {}), MARK: FORMAT, WRITER: _version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        found, writer = state.pop(MARK, None), state.pop(WRITER, "an unknown version")
        if found != FORMAT:
            raise InputError(
                f"this {type(self).__name__} was saved in format {found} by momentron {writer}, "
                f"and momentron {_version()} reads format {FORMAT}: fit it again, or install the "
                "version that saved it"
            )
        for name in STATUSES & state.keys():
            held = state[name]
            state[name] = list(map(Status, held)) if isinstance(held, list) else Status(held)
        self.__dict__.update(state)


def _version() -> str:
    return str(getattr(sys.modules.get("momentron"), "__version__", "unknown"))
