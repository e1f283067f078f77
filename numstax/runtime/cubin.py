"""Machine code for GPUs as `compile_cuda` makes it and the disk cache keeps it."""

from __future__ import annotations

from numstax.records import record


@record
class Cubin:
    """code : the ELF image; symbol : its entry; registers a thread, shared (static) bytes a block, stack : bytes of
    local memory a thread (spills and arrays that did not fit in registers); notices : what ptxas remarked."""

    code: bytes
    symbol: str
    registers: int = 0
    shared: int = 0
    stack: int = 0
    notices: tuple[str, ...] = ()
