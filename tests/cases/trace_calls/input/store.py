class Store:
    def __init__(self, path):
        self.path = path

    def save(self):
        self.save()
