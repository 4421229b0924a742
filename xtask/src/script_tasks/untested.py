import re
text = files.read_file(path="petl/transform/__init__.py")["content"]
names = sorted(set(re.findall(r"\b[a-z]{4,}\b", text.split("import", 1)[1])))
tests = ""
for path in files.glob(pattern="petl/test/transform/*.py")["files"]:
    tests += files.read_file(path=path)["content"]
[name for name in names if name not in tests]
