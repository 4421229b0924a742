"""The backend `pyflakes`: what pyflakes and pycodestyle find, in the words of cofferdam:backend.

Everything here but `app` runs on any Python, and is tested there.
"""
