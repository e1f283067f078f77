"""How each NumPy function is expressed in nodes; importing this package fills the registry.

One file for each topic: creation, shape, join, select (choosing and writing), places
(known positions), callbacks (functions that take functions), reduce, statistics (and the
nan-forms), order (medians), numeric, linear, einsum, refused.
"""

from numstax.trace.functions import (  # noqa: F401
    callbacks,
    creation,
    einsum,
    join,
    linear,
    numeric,
    order,
    places,
    reduce,
    refused,
    select,
    shape,
    statistics,
)
