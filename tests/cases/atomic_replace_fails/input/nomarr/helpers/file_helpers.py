from .model import File


def get_file(
    path,
):
    file = File(path)
    return file


def get_name(path):
    return path.name
