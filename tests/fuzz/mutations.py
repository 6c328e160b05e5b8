"""Ways to damage a file. Each takes the content and a source of random numbers, and returns other content.

The first ones know nothing of any format. The others keep the checksums of a format right, so that damage gets past
them to the code behind.
"""

import gzip
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from random import Random

Mutation = Callable[[bytes, Random], bytes]
Files = Mapping[str, bytes]

NUMBERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
TEXTS = (b"-1", b"0", b"99999999999", b"1e308", b"nan", b"null", b"()", b"{}", b"'", b"\0", b"\xff\xfe", b"(" * 300)
SUFFIXES = (".png", ".jpg", ".gif", ".npy", ".npz", ".bin", ".gz", ".zip", ".tar", ".json", ".txt", "")


def flip_bits(content: bytes, random: Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8))):
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


def flip_bits_of_the_header(content: bytes, random: Random) -> bytes:
    return flip_bits(content[:64], random) + content[64:]


def set_a_number(content: bytes, random: Random) -> bytes:
    """Overwrite 1, 2, 4 or 8 bytes, most often near the beginning or the end, where sizes are."""
    size = random.choice((1, 2, 4, 8))
    last = max(len(content) - size, 0)
    place = random.choice((random.randrange(min(last, 128) + 1), last - random.randrange(min(last, 64) + 1)))
    number = random.choice(NUMBERS) % 2 ** (8 * size)
    written = number.to_bytes(size, random.choice(("little", "big")))
    return content[:place] + written + content[place + size :]


def set_a_text(content: bytes, random: Random) -> bytes:
    """Replace a number or a word that is written as text."""
    found = list(re.finditer(rb"\d+|[a-z_]{3,}", content[:4096]))
    if not found:
        return set_a_number(content, random)
    chosen = random.choice(found)
    return content[: chosen.start()] + random.choice(TEXTS) + content[chosen.end() :]


def cut_off(content: bytes, random: Random) -> bytes:
    return content[: random.choice((random.randrange(len(content)), max(len(content) - random.randrange(1, 20), 0)))]


def add_bytes(content: bytes, random: Random) -> bytes:
    place = random.choice((0, len(content), random.randrange(len(content) + 1)))
    return content[:place] + random.randbytes(random.choice((1, 7, 512))) + content[place:]


def remove_a_chunk(content: bytes, random: Random) -> bytes:
    start, end = _range(content, random)
    return content[:start] + content[end:]


def repeat_a_chunk(content: bytes, random: Random) -> bytes:
    start, end = _range(content, random)
    return content[:end] + content[start:end] * random.choice((1, 1, 3)) + content[end:]


def clear_a_chunk(content: bytes, random: Random) -> bytes:
    start, end = _range(content, random)
    return content[:start] + bytes([random.choice((0, 255))]) * (end - start) + content[end:]


def _range(content: bytes, random: Random) -> tuple[int, int]:
    start = random.randrange(len(content))
    return start, min(start + random.choice((1, 4, 16, 100, 1000)), len(content))


GENERIC: tuple[Mutation, ...] = (
    flip_bits,
    flip_bits_of_the_header,
    set_a_number,
    set_a_text,
    cut_off,
    add_bytes,
    remove_a_chunk,
    repeat_a_chunk,
    clear_a_chunk,
)


def damage(content: bytes, random: Random, mutations: Sequence[Mutation] = GENERIC) -> bytes:
    """Damage a content by one to three mutations."""
    for _ in range(random.choice((1, 1, 2, 3))):
        content = random.choice(mutations)(content, random) if content else random.randbytes(3)
    return content


def inside_gzip(content: bytes, random: Random) -> bytes:
    """Damage what was gzipped, and gzip it again."""
    try:
        return gzip.compress(damage(gzip.decompress(content), random), mtime=0)
    except (OSError, EOFError, zlib.error):  # damaged before
        return flip_bits(content, random)


def inside_zip(content: bytes, random: Random) -> bytes:
    """Damage the content, the name or the length of an entry of a zip file, whose checksums are made anew."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            entries = [(entry.filename, packed.read(entry)) for entry in packed.infolist()]
    except Exception:  # damaged before, in any of the ways that the tests are about
        return flip_bits(content, random)
    if not entries:
        return flip_bits(content, random)
    chosen, written = random.randrange(len(entries)), io.BytesIO()
    name, inside = entries[chosen]
    entries[chosen] = random.choice(((name, damage(inside, random)), (_odd_name(name, random), inside)))
    if random.random() < 0.1:
        entries.append(random.choice(entries))
    with zipfile.ZipFile(written, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as packed:
        for name, inside in dict(entries).items():
            packed.writestr(name, inside)
    return written.getvalue()


def tar_header(content: bytes, random: Random) -> bytes:
    """Change a header of a tar, of a member or of its end, and make its checksum right."""
    blocks = [start for start in range(0, len(content) - 511, 512) if content[start + 257 : start + 262] == b"ustar"]
    if not blocks:
        return flip_bits(content, random)
    start = random.choice(blocks)
    header = bytearray(content[start : start + 512])
    place, length = random.choice(((0, 100), (124, 12), (156, 1), (157, 100), (257, 8), (345, 155)))
    value = random.choice((b"77777777777", b"\x80" + b"\xff" * 11, b"xgLK2356S", b"../../x", b"/x", b"0", b"-1", b""))
    offset = random.randrange(max(len(value), 1)) if length == 1 else 0
    header[place : place + length] = value[offset : offset + length].ljust(length, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return content[:start] + bytes(header) + content[start + 512 :]


def png_chunk(content: bytes, random: Random) -> bytes:
    """Damage a chunk of a PNG file, and make its checksum right."""
    if not content.startswith(b"\x89PNG"):
        return flip_bits(content, random)
    chunks, place = [], 8
    while place + 12 <= len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + length]))
        place += 12 + length
    if not chunks:
        return flip_bits(content, random)
    chosen = random.randrange(len(chunks))
    kind, inside = chunks[chosen]
    chunks[chosen] = (random.choice((kind, kind, b"zTXt", b"iCCP", b"tRNS", b"PLTE", b"eXIf")), damage(inside, random))
    made = [struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in chunks]
    return content[:8] + b"".join(made)


def damage_files(files: Files, random: Random, mutations: Sequence[Mutation]) -> dict[str, bytes]:
    """Damage the content of a file, or, less often, rename, remove, empty or exchange files."""
    damaged, name = dict(files), random.choice(sorted(files))
    other, chance = random.choice(sorted(files)), random.random()
    if chance < 0.85:
        damaged[name] = damage(files[name], random, mutations)
    elif chance < 0.9:
        stem, _, suffix = name.rpartition(".")
        damaged[(stem or suffix) + random.choice(SUFFIXES)] = damaged.pop(name)
    elif chance < 0.95:
        damaged[name], damaged[other] = files[other], files[name]
    elif chance < 0.975:
        damaged[name] = b""
    elif len(files) > 1:
        del damaged[name]
    return damaged


def _odd_name(name: str, random: Random) -> str:
    folder = name.rpartition("/")[0] or "x"
    return random.choice((f"../{name}", f"/{name}", f"{name}/", folder, "a" * 300, f"{name}.zip"))
