"""The backend `pyflakes`: runs pyflakes and pycodestyle, with reports as in cofferdam:backend.

Everything except the module `app` runs on any Python, where it is tested.
"""
