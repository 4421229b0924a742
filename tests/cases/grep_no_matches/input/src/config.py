import os
api_key = "x"
other = 1
password = "y"
