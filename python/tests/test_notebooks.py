"""The notebooks of the documents run from their first cell to their last."""

import importlib.util
import pathlib
import unittest

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "docs/notebooks"
NEEDED = ["nbclient", "nbformat", "ipykernel", "numpy", "pandas", "pyarrow", "matplotlib"]
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class Notebooks(unittest.TestCase):
    def test_all(self):
        import nbformat
        from nbclient import NotebookClient

        paths = sorted(NOTEBOOKS.glob("*.ipynb"))
        self.assertEqual(len(paths), 4)
        for path in paths:
            with self.subTest(notebook=path.name):
                notebook = nbformat.read(path, as_version=4)
                for cell in notebook.cells:
                    if cell.cell_type == "code":
                        self.assertEqual(cell.outputs, [], "outputs are not kept")
                NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}}).execute()


if __name__ == "__main__":
    unittest.main()
