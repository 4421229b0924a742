edit.atomic_replace(path="petl/util/base.py", replacements=[
    {"old_string": "return lambda row: (row[index],)", "new_string": "return lambda row: (row[index], )"}])
1
