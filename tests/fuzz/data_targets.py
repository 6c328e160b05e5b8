"""Data in every format: when it is damaged it is read, and is then sound, or is refused by an error of lila."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from fuzzing import Target
from mutations import GENERIC, Files, inside_gzip, inside_zip, png_chunk, tar_header
from PIL import Image

from lila.data.formats import Reading
from lila.data.read import read


def read_data(folder: Path) -> None:
    """Read a folder, or the only file in it, and check everything that training relies on."""
    inside = list(folder.iterdir())
    data = read(str(inside[0] if len(inside) == 1 else folder), reading=Reading(test_share=0.5))
    assert len(data.classes) >= 2
    for part in (data.train, data.test):
        images = part.images(torch.arange(len(part)))
        assert images.shape == (len(part), *data.train.shape)
        assert images.numel() > 0
        assert images.isfinite().all()
        assert part.of_series or images.min() >= 0
        assert part.of_series or images.max() <= 1
        assert part.labels.dtype == torch.int64
        assert 0 <= int(part.labels.min()) <= int(part.labels.max()) < len(data.classes)


def random_pixels(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(len(shape)).integers(0, 256, shape, dtype=np.uint8)


def npy_files() -> Files:
    arrays = {"x": random_pixels(6, 4, 5) / 255, "y": np.arange(6) % 2}
    return {f"{name}.npy": _saved(array) for name, array in arrays.items()}


def npz_files() -> Files:
    content = io.BytesIO()
    labels = np.arange(6, dtype=np.uint8) % 3
    pixels = random_pixels(6, 4, 5, 3)
    np.savez_compressed(content, x_train=pixels, y_train=labels, x_test=pixels[:3], y_test=labels[:3, None])
    return {"data.npz": content.getvalue()}


def series_files() -> Files:
    content = io.BytesIO()
    np.savez(content, series=random_pixels(8, 2, 5) - 100.0, labels=np.arange(8) % 2)
    return {"data.npz": content.getvalue()}


def ts_files() -> Files:
    lines = [f"{','.join(map(str, row))}:{'ab'[i % 2]}" for i, row in enumerate(random_pixels(8, 6).tolist())]
    text = "\n".join(["@problemName x", "@timeStamps false", "@classLabel true a b", "@data", *lines])
    return {"x_TRAIN.ts": text.encode(), "x_TEST.ts": text.encode()}


def idx_files() -> Files:
    parts = (("train", 6), ("t10k", 3))
    images = {f"{part}-images-idx3-ubyte": _idx(random_pixels(n, 4, 5)) for part, n in parts}
    return images | {f"{part}-labels-idx1-ubyte": _idx(np.arange(n, dtype=np.uint8) % 3) for part, n in parts}


def idx_gzip_files() -> Files:
    return {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in idx_files().items()}


def cifar_files() -> Files:
    names = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
    return {
        name: b"".join(bytes([i + j]) + random_pixels(3072).tobytes() for j in (0, 1)) for i, name in enumerate(names)
    }


def folder_files() -> Files:
    kinds = ("png", "jpeg", "gif", "bmp", "tiff", "webp")
    pixels = random_pixels(2, 6, 5, 3)
    return {f"{name}/{kind}.{kind}": _image(pixels[i], kind) for i, name in enumerate(("a", "b")) for kind in kinds}


def png_files() -> Files:
    return {name: content for name, content in folder_files().items() if name.endswith(".png")} | {
        f"{name}/grey.png": _image(random_pixels(6, 5), "png") for name in ("a", "b")
    }


def zip_files() -> Files:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, file in png_files().items():
            packed.writestr(name, file)
    return {"photos.zip": content.getvalue()}


def tar_files() -> Files:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for name, file in png_files().items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(file), 0
            member.pax_headers = {"comment": "é" * 20}
            packed.addfile(member, io.BytesIO(file))
    return {"photos.tar": content.getvalue()}


def tar_gzip_files() -> Files:
    return {"photos.tar.gz": gzip.compress(tar_files()["photos.tar"], mtime=0)}


def _saved(array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def _idx(array: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]") -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def _image(pixels: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]", kind: str) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, kind)
    return content.getvalue()


TARGETS = (
    Target("npy", npy_files, read_data),
    Target("npz", npz_files, read_data, (*GENERIC, inside_zip, inside_zip, inside_zip)),
    Target("series", series_files, read_data, (*GENERIC, inside_zip, inside_zip, inside_zip)),
    Target("ts", ts_files, read_data),
    Target("idx", idx_files, read_data),
    Target("idx-gzip", idx_gzip_files, read_data, (*GENERIC, inside_gzip, inside_gzip)),
    Target("cifar", cifar_files, read_data),
    Target("folder", folder_files, read_data),
    Target("png", png_files, read_data, (*GENERIC, png_chunk, png_chunk, png_chunk)),
    Target("zip", zip_files, read_data, (*GENERIC, inside_zip, inside_zip, inside_zip)),
    Target("tar", tar_files, read_data, (*GENERIC, tar_header, tar_header, tar_header)),
    Target("tar-gzip", tar_gzip_files, read_data, (*GENERIC, inside_gzip, inside_gzip)),
)
