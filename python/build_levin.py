"""build_levin.py - builds distributions of levin: a wheel with the program, the library and the package levin, and a source
distribution with the C sources.

It is the PEP 517 build backend of pyproject.toml: pip calls it to build levin with the C compiler of this machine.
tools/make_wheel runs it as a program to pack a build for other machines. Wheels of the same files are identical byte for
byte. Editable installs are not supported; the package of a checkout finds the library in its build folder.
"""
import argparse
import base64
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "levin-train"
FILE_NAME = NAME.replace("-", "_")  # in file names
# The inputs of the build. A source distribution contains them and python/.
SOURCES = ["CMakeLists.txt", "LICENSE", "include", "recipes", "src", "tools"]


def source_folder():
    """The folder with CMakeLists.txt: the checkout's, or `source` in an unpacked source distribution."""
    for folder in (HERE.parent, HERE / "source"):
        if (folder / "CMakeLists.txt").is_file() and (folder / "include/levin.h").is_file():
            return folder
    raise SystemExit(f"error: the C sources of levin are neither in {HERE.parent} nor in {HERE / 'source'}: build from a "
                     "checkout or from a complete source distribution")


def version():
    text = (source_folder() / "CMakeLists.txt").read_text()
    return re.search(r"project\(levin VERSION ([0-9.]+)", text)[1]


def metadata():
    description = HERE / "README.md"
    return (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version()}\n"
            "Summary: Trains and fine-tunes transformers with one native program\n"
            "License: MIT\nLicense-File: LICENSE\nRequires-Python: >=3.9\nRequires-Dist: numpy\n"
            "Classifier: Operating System :: POSIX :: Linux\n"
            "Description-Content-Type: text/markdown\n\n" +
            (description.read_text() if description.is_file() else ""))


def archive_time():
    """The time of files in archives in seconds since 1970: SOURCE_DATE_EPOCH, else 1980, the first year of zip files."""
    return max(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")), 315532800)


def package_files():
    """Pairs (name in the wheel, path) of the Python package."""
    folder = HERE / "levin"
    files = [f for f in sorted(folder.rglob("*")) if f.is_file() and "__pycache__" not in f.parts]
    return [("levin/" + f.relative_to(folder).as_posix(), f) for f in files if f.parent.name not in ("lib", "bin")]


def license_files(parts):
    """Pairs (name, path): the license of levin, and those written by tools/setup.sh to `parts`."""
    files = [("LICENSE", source_folder() / "LICENSE")]
    files += [(f.name, f) for f in sorted((parts / "licenses").glob("*"))] if parts else []
    return files


def pack(folder, tag, program, library, parts=None):
    """Write the wheel into `folder` and return its file name. `tag` is its platform, for example manylinux2014_x86_64."""
    base = f"{FILE_NAME}-{version()}"
    info = f"{base}.dist-info"
    entries = [(name, path.read_bytes(), 0o644) for name, path in package_files()]
    entries.append(("levin/lib/liblevin.so", library.read_bytes(), 0o755))
    entries.append((f"{base}.data/scripts/levin", program.read_bytes(), 0o755))
    entries += [(f"{base}.data/data/share/levin/recipes/{path.name}", path.read_bytes(), 0o644)
                for path in sorted((source_folder() / "recipes").glob("*.yaml"))]
    entries += [(f"{info}/licenses/{name}", path.read_bytes(), 0o644) for name, path in license_files(parts)]
    entries.append((f"{info}/METADATA", metadata().encode(), 0o644))
    entries.append((f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: build_levin\nRoot-Is-Purelib: false\n"
                                     f"Tag: py3-none-{tag}\n".encode(), 0o644))
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data, _ in entries)
    entries.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644))
    Path(folder).mkdir(parents=True, exist_ok=True)
    wheel = Path(folder) / f"{base}-py3-none-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name, data, mode in entries:
            entry = zipfile.ZipInfo(name, time.gmtime(archive_time())[:6])
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, data)
    return wheel.name


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build_here(folder):
    """Build program and library with this machine's compiler; returns the paths of both, and of the folder with the dependencies
    that setup.sh built."""
    source, build, parts = source_folder(), Path(folder) / "build", Path(folder) / "parts"
    # Installs only into `parts`, and nothing if jansson and libyaml are available.
    run("tools/setup.sh", ["bash", source / "tools/setup.sh", "--prefix", parts], LEVIN_NO_APT="1")
    activate = f'. "{parts}/env.sh" && exec "$@"'
    # A shell reads the flags, and CMake reads CFLAGS only if CMAKE_C_FLAGS is not given.
    flags = f"{os.environ.get('CFLAGS', '')} {shlex.quote(f'-ffile-prefix-map={source}/=')}".strip()
    run("configuring (cmake)",
        ["bash", "-c", activate, "x", "cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", f"-DCMAKE_C_FLAGS={flags}"])
    run("compiling (cmake --build)",
        ["bash", "-c", activate, "x", "cmake", "--build", build, "--target", "levin", "levin_shared"])
    return build / "levin", build / "liblevin.so", parts


def run(step, command, **variables):
    # pip reads the standard output.
    got = subprocess.run([str(c) for c in command], env=dict(os.environ, **variables), stdout=sys.stderr, check=False)
    if got.returncode:
        raise SystemExit(f"error: building levin failed at {step}: see the lines above")


# --- PEP 517 ---
def get_requires_for_build_wheel(config_settings=None):
    return [program for program in ("cmake", "ninja") if not shutil.which(program)]


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Name, version and requirements without a build, so that missing requirements fail before compiling."""
    name = f"{FILE_NAME}-{version()}.dist-info"
    folder = Path(metadata_directory) / name
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(metadata())
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    platform = re.sub(r"[^a-z0-9]+", "_", sysconfig.get_platform().lower())
    with tempfile.TemporaryDirectory() as folder:
        return pack(wheel_directory, platform, *build_here(folder))


def build_sdist(sdist_directory, config_settings=None):
    base, source = f"{FILE_NAME}-{version()}", source_folder()
    files = package_files() + [(f.name, f) for f in (HERE / "pyproject.toml", HERE / "README.md", Path(__file__).resolve())
                               if f.is_file()]
    for top in SOURCES:
        found = sorted((source / top).rglob("*")) if (source / top).is_dir() else [source / top]
        files += [(f"source/{f.relative_to(source).as_posix()}", f) for f in found
                  if f.is_file() and "__pycache__" not in f.parts]
    Path(sdist_directory).mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in [("PKG-INFO", None), *files]:
            data = path.read_bytes() if path else metadata().encode()
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size, entry.mtime = len(data), archive_time()
            entry.mode = 0o755 if path and os.access(path, os.X_OK) else 0o644
            tar.addfile(entry, io.BytesIO(data))
    with open(Path(sdist_directory) / f"{base}.tar.gz", "wb") as out:
        import gzip
        with gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=archive_time()) as packed:
            packed.write(buffer.getvalue())
    return f"{base}.tar.gz"


def main():
    p = argparse.ArgumentParser(description="Pack a wheel of a build, or a source distribution.")
    p.add_argument("--tag", help="the wheel's platform, for example manylinux2014_x86_64; without it: a source distribution")
    p.add_argument("--build", type=Path, help="the folder with levin and liblevin.so")
    p.add_argument("--parts", type=Path, help="the folder with licenses/ of the linked libraries")
    p.add_argument("--out", default="dist")
    o = p.parse_args()
    if o.tag and not o.build:
        p.error("--tag also needs --build FOLDER, the folder with levin and liblevin.so")
    print(Path(o.out) / (pack(o.out, o.tag, o.build / "levin", o.build / "liblevin.so", o.parts) if o.tag
                         else build_sdist(o.out)))


if __name__ == "__main__":
    main()
