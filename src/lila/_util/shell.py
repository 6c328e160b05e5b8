"""Text that came from a file, made fit for a terminal and for a shell."""

import shlex

_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def quoted(text: str) -> str:
    r"""Return a text as one word of a shell command, which the shell does not interpret.

    A text with characters that are not printed, such as a line break or an escape sequence that ends what is pasted
    into a terminal, becomes $'...\n...', which bash, zsh and ksh read.
    """
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(_NAMED.get(c, c if c.isprintable() else _bytes(c)) for c in text) + "'"


def printable(text: str) -> str:
    r"""Return a text with \x1b and the like in place of what a terminal would act on; line breaks and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def option(name: str, value: str) -> str:
    """Return an option of a shell command with its value, which is not taken for another option."""
    word = quoted(f"--{name}")
    return f"{word}={quoted(value)}" if value.startswith("-") else f"{word} {quoted(value)}"


def _bytes(character: str) -> str:
    """Return the bytes of a character as octal numbers, whose three digits cannot run into what follows."""
    errors = "surrogateescape" if _is_escaped(character) else "surrogatepass"
    return "".join(f"\\{byte:03o}" for byte in character.encode(errors=errors))


def _is_escaped(character: str) -> bool:
    """Whether a character stands for a byte of a path that is not UTF-8."""
    return 0xDC80 <= ord(character) <= 0xDCFF
