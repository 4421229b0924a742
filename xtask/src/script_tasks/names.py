import re
names = {}
for path in files.glob(pattern="petl/transform/*.py")["files"]:
    for name in re.findall(r"[a-z_]{4,}", files.read_file(path=path)["content"]):
        names[name] = names.get(name, 0) + 1
sorted([(n, name) for name, n in names.items()], reverse=True)[:10]
