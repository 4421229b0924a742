text = files.read_file(path="petl/test/transform/test_joins.py")["content"]
parts = text.split("\ndef ")[1:]
[part[:part.index("(")] for part in parts if part.startswith("test") and "antijoin(" in part]
