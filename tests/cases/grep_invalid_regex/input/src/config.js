const token = 1
