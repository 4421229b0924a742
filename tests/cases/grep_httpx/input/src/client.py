import httpx
httpx.get("x")
