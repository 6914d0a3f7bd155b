"""Packs knee.py as a wheel, for pip (PEP 517)."""

import base64
import hashlib
import re
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
VERSION = re.search(r'^version = "(.+)"', (HERE / "pyproject.toml").read_text(), re.M)[1]
INFO = f"knee-{VERSION}.dist-info"
METADATA = f"""Metadata-Version: 2.1
Name: knee
Version: {VERSION}
Summary: Records and answers of knee as tables
License: MIT OR Apache-2.0
Requires-Python: >=3.9
Provides-Extra: notebook
Requires-Dist: pandas; extra == "notebook"
Requires-Dist: matplotlib; extra == "notebook"
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: knee\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel, and returns its name."""
    files = {"knee.py": (HERE / "knee.py").read_bytes()}
    files |= {f"{INFO}/METADATA": METADATA.encode(), f"{INFO}/WHEEL": WHEEL.encode()}
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    files[f"{INFO}/RECORD"] = ("".join(lines) + f"{INFO}/RECORD,,\n").encode()
    wheel = f"knee-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            packed.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data)
    return wheel
