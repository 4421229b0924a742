found = []
for path in files.glob(pattern="petl/transform/*.py")["files"]:
    for part in files.read_file(path=path)["content"].split("\nclass ")[1:]:
        if "__iter__" in part and "__len__" not in part:
            found.append(part[:part.index(":")])
len(found)
