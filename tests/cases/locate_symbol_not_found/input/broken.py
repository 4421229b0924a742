def get_fiel(:
