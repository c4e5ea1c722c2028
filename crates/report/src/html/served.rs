//! The first page of `report --serve`: what is served, as links.

use crate::escape_lines;
use crate::markup::{DOCTYPE, Markup, PreEscaped, html};

use super::PALETTE;

/// A few lines of text.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:3rem auto;\
    padding:0 1rem}dt{font-weight:600;margin-top:1rem}dd{margin:0}code{overflow-wrap:anywhere}";

/// A link of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedLink {
    /// Where it leads: a path from the page, or a whole address.
    pub address: String,
    /// What it is called.
    pub name: &'static str,
    /// What it is for.
    pub purpose: String,
}

/// The page, of the recording `file`.
#[must_use]
pub fn served_page(file: &str, links: &[ServedLink]) -> String {
    let link = |link: &ServedLink| -> Markup {
        html! {
            dt { a href=(link.address) rel="noreferrer" { (link.name) } }
            dd { (link.purpose) }
        }
    };
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (file) " · pmuscope" }
                style { (PreEscaped(PALETTE)) (PreEscaped(STYLE)) }
            }
            body {
                h1 { (file) }
                dl { @for one in links { (link(one)) } }
                p {
                    "The address of this page is a secret: with it, anybody on this machine can read the profile and the \
                    source files that it names, until pmuscope ends."
                }
            }
        }
        "\n"
    };
    escape_lines(&page.into_string()).into_owned()
}

/// A page that leads to `address` at once, for browsers that must not be given it on a command line.
#[must_use]
pub fn redirect_page(address: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="referrer" content="no-referrer";
                meta http-equiv="refresh" content={ "0;url=" (address) };
                title { "pmuscope" }
            }
            body { a href=(address) { "Open the profile" } }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_foreign_is_text() {
        let link = ServedLink { address: "x?a&b".into(), name: "Page", purpose: "<i>".into() };
        let page = served_page("<b>.data", &[link]);
        assert!(page.contains("<h1>&lt;b&gt;.data</h1>") && page.contains("href=\"x?a&amp;b\""));
        assert!(page.contains("<dd>&lt;i&gt;</dd>"), "{page}");
        assert!(redirect_page("http://h/\"t/").contains("0;url=http://h/&quot;t/"));
    }
}
