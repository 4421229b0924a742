x = 1
from typing import (Dict)
