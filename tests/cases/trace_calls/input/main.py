import json
from store import Store

def main(path):
    Store(path).save()
    json.dumps({})
    path.unknown()

def again():
    main("x")
