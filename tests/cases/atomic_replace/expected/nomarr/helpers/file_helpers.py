from .model import File


def get_file(path: str) -> tuple[File, str]:
    file = File(path)
    return file, path


def get_name(path):
    return path.name
