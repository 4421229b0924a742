from typing import Any, List
