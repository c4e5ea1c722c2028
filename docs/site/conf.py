"""The web site: the documents of the repository, in the order of docs/SUMMARY.md.

Sphinx reads them where they are. `make site` runs it; nothing on the site asks any network for anything.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

project = "pmuscope"
html_title = "pmuscope"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/internals/*.md",
    "crates/*/README.md",
    "testdata/recordings/README.md",
]
# Headings are link targets, as on GitHub.
myst_heading_anchors = 4
# Code blocks hold terminal output as often as commands.
highlight_language = "text"
html_theme = "furo"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False


def groups():
    """Titles of docs/SUMMARY.md with their documents, as Sphinx names them."""
    found = []
    for line in (ROOT / "docs/SUMMARY.md").read_text().splitlines():
        if line.startswith("# ") and line != "# pmuscope":
            found.append((line[2:], []))
        elif entry := re.fullmatch(r"- \[(.+)\]\((.+)\.md\)", line):
            found[-1][1].append(f"{entry[1]} <docs/{entry[2]}>")
    return found


def toctree(caption, entries):
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", *entries, "```", ""])


def named(paths):
    return [str(path.relative_to(ROOT).with_suffix("")) for path in sorted(paths)]


def adapt(app, document, source):
    """The side bar comes from the tables of contents of the first page."""
    # Rust's documentation takes more words after the language.
    source[0] = re.sub(r"^```rust,\w+$", "```rust", source[0], flags=re.MULTILINE)
    if document == root_doc:
        libraries = named(ROOT.glob("crates/*/README.md"))
        project = ["docs/SUMMARY", "CHANGELOG", "CONTRIBUTING", "RELEASING", "DESIGN", "testdata/recordings/README"]
        contents = [*groups(), ("Libraries", libraries), ("Project", project)]
        source[0] += "\n\n" + "\n".join(toctree(*group) for group in contents)


def setup(app):
    app.connect("source-read", adapt)
