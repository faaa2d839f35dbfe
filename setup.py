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
LINK = re.compile(r"(!?\[[^]]*\]\()(?!\w+:|#)([^)\s]+\))")


def readme() -> str:
    """README.md, its links to files of the repository absolute once the address is known."""
    text = Path("README.md").read_text(encoding="utf-8")
    if not URL:
        return text
    return LINK.sub(lambda link: f"{link[1]}{URL}/{'raw' if link[1][0] == '!' else 'blob'}/main/{link[2]}", text)


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
        time = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))  # 1980, as in wheels

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


setup(
    long_description=readme(),
    long_description_content_type="text/markdown",
    project_urls={
        "Documentation": f"{URL}/tree/main/docs",
        "Changelog": f"{URL}/blob/main/CHANGELOG.md",
        "Issues": f"{URL}/issues",
    }
    if URL
    else {},
    cmdclass={"build_py": BuildWithExamples, "sdist": ReproducibleSdist},
)
