import httpx


class Client:
    pass
