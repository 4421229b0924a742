"""Makes a zip file of a directory, the same bytes each time.

Usage: zip.py DIRECTORY FILE TIME [INFO]

TIME is the time of all entries, in seconds since 1970. With INFO, the name of a wheel's directory
`*.dist-info`, the list of files that wheels need (PEP 427) is written to INFO/RECORD.
"""

import base64
import hashlib
import os
import sys
import time
import zipfile


def files(directory):
    for folder, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            yield os.path.relpath(path, directory), path


def add(archive, name, data, executable, when):
    entry = zipfile.ZipInfo(name, date_time=when)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix: the permissions count.
    entry.external_attr = (0o100755 if executable else 0o100644) << 16
    archive.writestr(entry, data, compresslevel=9)


def main(directory, file, seconds, info=None):
    when = time.gmtime(max(int(seconds), 315532800))[:6]  # Zip knows no time before 1980.
    record = []
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        for name, path in files(directory):
            with open(path, "rb") as opened:
                data = opened.read()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            record.append(f"{name},sha256={digest.decode()},{len(data)}\n")
            add(archive, name, data, os.access(path, os.X_OK), when)
        if info is not None:
            name = f"{info}/RECORD"
            record.append(f"{name},,\n")
            add(archive, name, "".join(record), False, when)


main(*sys.argv[1:])
