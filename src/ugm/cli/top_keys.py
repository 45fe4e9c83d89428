"""The keys that a user presses while a view is shown.

`click.getchar` waits without a time limit and changes the terminal for each key, so that it would stop the updates.
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["KeySource", "names_of_keys", "pressed_keys"]

#: Waits for keys for a number of seconds, and returns their names; none after that time.
KeySource = Callable[[float], list[str]]

#: A sequence of a terminal for one key, or a character.
_KEY: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)
_NAMES: Final = {
    **dict.fromkeys(("\x1b[A", "\x1bOA"), "up"),
    **dict.fromkeys(("\x1b[B", "\x1bOB"), "down"),
    **dict.fromkeys(("\x1b[C", "\x1bOC"), "right"),
    **dict.fromkeys(("\x1b[D", "\x1bOD"), "left"),
    **dict.fromkeys(("\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"), "home"),
    **dict.fromkeys(("\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"), "end"),
    **dict.fromkeys(("\r", "\n"), "enter"),
    **dict.fromkeys(("\x7f", "\b"), "backspace"),
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[Z": "back tab",
    "\t": "tab",
    "\x1b": "escape",
    "\x04": "q",
}
#: The maximum number of bytes that are read at once.
_MOST: Final = 1024


@contextmanager
def pressed_keys() -> Iterator[KeySource]:
    """Let the terminal report each key at once, without showing it; the end restores the terminal.

    Without a POSIX terminal as the standard input, the result only waits.
    """
    try:
        import termios  # noqa: PLC0415 - not on Windows
        import tty  # noqa: PLC0415 - not on Windows
    except ImportError:
        yield _only_wait
        return
    if not sys.stdin.isatty():
        yield _only_wait
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        # Ctrl-C still interrupts.
        tty.setcbreak(terminal)
        yield _reader(terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def names_of_keys(text: str) -> list[str]:
    r"""Return the names of keys in the input of a terminal; unknown sequences are omitted.

    >>> names_of_keys("s\x1b[A\x1b[5~ ")
    ['s', 'up', 'page up', ' ']
    """
    names = (_NAMES.get(key, key) for key in _KEY.findall(text))
    return [name for name in names if name.isprintable()]


def _only_wait(seconds: float) -> list[str]:
    time.sleep(seconds)
    return []


def _reader(terminal: int) -> KeySource:
    decoder = getincrementaldecoder("utf-8")("replace")

    def read(seconds: float) -> list[str]:
        if not select.select([terminal], [], [], seconds)[0]:
            return []
        found = os.read(terminal, _MOST)
        # A terminal that is closed has no more keys.
        return names_of_keys(decoder.decode(found)) if found else ["q"]

    return read
