found = grep.grep(pattern=r"^\s*def test_", glob="*.py", output_mode="count")
counts = sorted([(c["matches"], c["file"]) for c in found["counts"]], reverse=True)
[found["total_matches"], counts[:10]]
