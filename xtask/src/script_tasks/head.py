paths = files.glob(pattern="petl/transform/*.py")["files"]
for path in paths:
    text = files.read_file(path=path)["content"]
    files.write_file(path=path, content="# Licence: MIT\n" + text)
len(paths)
