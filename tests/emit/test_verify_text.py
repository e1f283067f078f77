"""Names that may have no value are found in the text of programs."""

import pytest

from numstax.emit.verify_text import verify_text
from numstax.errors import VerifyError
from numstax.program import Program

RIGHT = (
    "def k(n, a):\n    if n > 2:\n        x = 1\n    else:\n        x = 2\n    a[0] = x\n",
    "def k(n, a):\n    x = 0\n    for i in range(n):\n        y = x\n        x = y + i\n    a[0] = x\n",
    "def k(n, a):\n    if n == 0:\n        return\n    else:\n        x = n\n    a[0] = x\n",
    "def k(n, a):\n    x, y = n, 2\n    while x < y:\n        x += int64(1)\n    a[0] = x\n",
    "def k(n, a):\n    for i in range(n):\n"
    "        if i > 2:\n            continue\n        else:\n            x = i\n        a[0] = x\n",
)
WRONG = (
    "def k(n, a):\n    if n > 2:\n        x = 1\n    a[0] = x\n",
    "def k(n, a):\n    if n > 2:\n        x = 1\n        a[0] = x\n    else:\n        a[0] = x\n",
    "def k(n, a):\n    for i in range(n):\n        x = i\n    a[0] = x\n",
    "def k(n, a):\n    for i in range(n):\n        a[i] = x\n        x = i\n",
    "def k(n, a):\n    x += n\n    a[0] = x\n",
    "def k(n, a):\n    while n < 3:\n        x = 1\n        break\n    a[0] = x\n",
)


@pytest.mark.parametrize("text", RIGHT)
def test_all_have_values(text: str) -> None:
    verify_text(Program("k", "cpu", text, "k", ()))


@pytest.mark.parametrize("text", WRONG)
def test_a_name_without_a_value(text: str) -> None:
    with pytest.raises(VerifyError, match="x may have no value"):
        verify_text(Program("k", "cpu", text, "k", ()))
