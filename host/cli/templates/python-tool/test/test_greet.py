import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from greet import BlankName, greet  # noqa: E402


class Greet(unittest.TestCase):
    def test_somebody_is_greeted_and_nobody_is_not(self):
        self.assertEqual(greet("Ada"), "Hello, Ada!")
        with self.assertRaises(BlankName):
            greet(" ")


if __name__ == "__main__":
    unittest.main()
