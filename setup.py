"""What setup.cfg cannot say: absolute links of the README, the examples in the wheel, a reproducible sdist."""

import gzip
import os
import re
import shutil
import tarfile
from configparser import ConfigParser
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

CONFIG = ConfigParser()
CONFIG.read("setup.cfg", encoding="utf-8")
URL = CONFIG["metadata"]["url"].rstrip("/")
PAGES = {"Documentation": "tree/main/docs", "Changelog": "blob/main/CHANGELOG.md", "Issues": "issues"}
LINK = re.compile(r"(!?\[[^]]*\]\()(?!\w+:|#)([^)\s]+\))")


def readme() -> str:
    """README.md, its links to files of the repository absolute once the address is known."""
    text = Path("README.md").read_text(encoding="utf-8")
    return LINK.sub(absolute, text) if URL else text


def absolute(link: re.Match) -> str:
    kind = "raw" if link[1].startswith("!") else "blob"
    return f"{link[1]}{URL}/{kind}/main/{link[2]}"


class BuildWithExamples(build_py):
    """The package, with `examples/` as `hf_structure.examples`."""

    def run(self):
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib, "hf_structure/examples")
            shutil.copytree("examples", folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)


class ReproducibleSdist(sdist):
    """An archive in which files come in order, with the time of `SOURCE_DATE_EPOCH` and without owners."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):
        time = int(os.environ["SOURCE_DATE_EPOCH"])

        def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mtime = time
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.mode & 0o100 else 0o644
            return member

        path = f"{base_name}.tar.gz"
        with (
            open(path, "wb") as file,
            gzip.GzipFile("", "wb", mtime=time, fileobj=file) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir, filter=anonymous)
        return path


os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")  # of all files in both archives: 1980, where zip begins
setup(
    long_description=readme(),
    long_description_content_type="text/markdown",
    project_urls={name: f"{URL}/{page}" for name, page in PAGES.items() if URL},
    cmdclass={"build_py": BuildWithExamples, "sdist": ReproducibleSdist},
)
