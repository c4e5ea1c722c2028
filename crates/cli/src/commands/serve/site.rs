//! What is served of a recording. Each file is made when it is first asked for.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pmuscope_console::output::Format;
use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::code::{CodeQueries, symbol_api};
use pmuscope_profile::export::{Source, firefox};
use pmuscope_profile::{Detail, Options, Profile, RankBy};
use pmuscope_report::{RowLimits, ServedLink, Summary, served_page};
use pmuscope_serve::{ClientRequest, Method, Reply, ReplyBody, Routes};
use pmuscope_symbols::Symbolizer;

use crate::commands::annotate::AnnotateArgs;
use crate::commands::exports;
use crate::commands::load::{LoadArgs, LoadRequest};

/// The Firefox Profiler's origin: the only one that may read profiles and ask for symbols.
pub(super) const VIEWER: &str = "https://profiler.firefox.com";

/// The page has its style and script in itself, and loads nothing.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The first page has only links.
const INDEX_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

/// Files and answers of one recording.
#[derive(Debug)]
pub(crate) struct Site {
    recording: RecordingFile,
    file: String,
    load: LoadArgs,
    annotate: AnnotateArgs,
    limits: RowLimits,
    page: OnceLock<Result<Made, String>>,
    viewers: OnceLock<Result<Viewers, String>>,
}

/// A file that was made, without a name.
#[derive(Debug, Clone)]
struct Made {
    file: Arc<File>,
    length: u64,
}

/// What other programs take.
#[derive(Debug)]
struct Viewers {
    firefox: Made,
    pprof: Made,
    code: Mutex<CodeQueries>,
}

impl Made {
    fn by(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<Self> {
        let mut out = BufWriter::new(tempfile::tempfile()?);
        write(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let length = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), length })
    }

    fn body(&self) -> ReplyBody {
        ReplyBody::File { file: Arc::clone(&self.file), length: self.length }
    }
}

impl Site {
    /// Of that recording; nothing is read yet.
    pub(crate) fn new(
        recording: RecordingFile,
        load: LoadArgs,
        annotate: AnnotateArgs,
        limits: RowLimits,
    ) -> Self {
        let file = recording.path().to_string_lossy().into_owned();
        let (page, viewers) = (OnceLock::new(), OnceLock::new());
        Self { recording, file, load, annotate, limits, page, viewers }
    }

    /// The recording's path.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    fn read(&self, format: Format, detail: Detail) -> anyhow::Result<(Profile, Symbolizer)> {
        let inlined = detail == Detail::Address || !self.load.no_inline;
        let mut symbolizer = self.load.symbols.symbolizer(inlined, &self.recording)?;
        let options = Options { detail, ..Options::COUNTS };
        let wanted = LoadRequest {
            apart: exports::group_by(format, RankBy::Own),
            options,
            stacks: true,
            progress: true,
        };
        let profile = self.load.load(&self.recording, &mut symbolizer, wanted)?;
        Ok((profile, symbolizer))
    }

    fn page(&self) -> Result<&Made, &str> {
        let make = || {
            let format = Format::Html;
            let detail = match self.annotate.is_asked() {
                true => Detail::Address,
                false => exports::detail(format),
            };
            let (profile, mut symbolizer) = self.read(format, detail)?;
            let (source, summary) = (Source::new(&profile), Summary::new(&profile, &self.file));
            let code = self.annotate.of_page(&profile, &mut symbolizer)?;
            Made::by(|out| exports::write(format, &source, &summary, self.limits, &code, out))
        };
        let made = self.page.get_or_init(|| make().map_err(|error| format!("{error:#}")));
        made.as_ref().map_err(|why| &**why)
    }

    fn viewers(&self) -> Result<&Viewers, &str> {
        let make = || -> anyhow::Result<Viewers> {
            // CPUs are in pprof only; the other format adds them up.
            let (profile, symbolizer) = self.read(Format::Pprof, exports::detail(Format::Pprof))?;
            let code = CodeQueries::new(&profile, symbolizer, self.annotate.objdump().to_owned());
            let functions = code.function_ranges(&profile);
            let source = Source::new(&profile);
            let summary = Summary::new(&profile, &self.file);
            let pprof = |out: &mut dyn Write| {
                exports::write(Format::Pprof, &source, &summary, self.limits, &[], out)
            };
            Ok(Viewers {
                firefox: Made::by(|out| firefox::write_with_functions(&source, &functions, out))?,
                pprof: Made::by(pprof)?,
                code: Mutex::new(code),
            })
        };
        let made = self.viewers.get_or_init(|| make().map_err(|error| format!("{error:#}")));
        made.as_ref().map_err(|why| &**why)
    }

    fn index(&self, base: &str) -> Reply {
        let page = served_page(&self.file, &links(base));
        Reply { policy: INDEX_POLICY, ..Reply::new("text/html; charset=utf-8", page) }
    }

    fn get(&self, path: &str, base: &str) -> Result<Reply, &str> {
        Ok(match path {
            "/" => self.index(base),
            "/page.html" => {
                let body = self.page()?.body();
                Reply { policy: PAGE_POLICY, ..Reply::new("text/html; charset=utf-8", body) }
            }
            "/profile.json" => {
                let body = self.viewers()?.firefox.body();
                Reply { is_gzip: true, ..Reply::new("application/json", body) }
            }
            "/profile.pb.gz" => {
                let answer = Reply::new("application/octet-stream", self.viewers()?.pprof.body());
                Reply { save_as: Some("profile.pb.gz"), ..answer }
            }
            _ => Reply::not_found(),
        })
    }

    fn post(&self, path: &str, question: &[u8]) -> Result<Reply, &str> {
        if !symbol_api::PATHS.contains(&path) {
            return Ok(Reply::not_found());
        }
        // Poison: a question that ended in a panic. What it asked has no state.
        let code = self.viewers()?.code.lock();
        let mut code = code.unwrap_or_else(PoisonError::into_inner);
        let answer = symbol_api::answer(&mut code, path, question);
        Ok(answer.map_or_else(Reply::not_found, |json| Reply::new("application/json", json)))
    }
}

impl Routes for Site {
    fn is_for_viewer(&self, path: &str) -> bool {
        path == "/profile.json" || symbol_api::PATHS.contains(&path)
    }

    fn answer(&self, request: &ClientRequest) -> Reply {
        let answer = match request.method {
            Method::Get => self.get(&request.path, &request.base),
            Method::Post => self.post(&request.path, &request.body),
        };
        answer.unwrap_or_else(|why| Reply::text(500, why))
    }
}

/// What the first page leads to; `base` is where the client sees us.
fn links(base: &str) -> [ServedLink; 3] {
    let encoded = |address: &str| address.replace(':', "%3A").replace('/', "%2F");
    let viewer = format!(
        "{VIEWER}/from-url/{}/?symbolServer={}",
        encoded(&format!("{base}/profile.json")),
        encoded(base)
    );
    let link = |address: &str, name, purpose: &str| ServedLink {
        address: address.to_owned(),
        name,
        purpose: purpose.to_owned(),
    };
    [
        link("page.html", "Report", "Flame graph, functions, CPUs over time. Needs no network."),
        link(
            &viewer,
            "Firefox Profiler",
            "Call tree, timeline, source, and assembly. The viewer is loaded from profiler.firefox.com; \
             the profile stays in your browser.",
        ),
        link("profile.pb.gz", "pprof", "A file for go tool pprof, Pyroscope, and Grafana."),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_viewer_is_led_to_where_the_client_sees_us() {
        let links = links("http://localhost:90/ab");
        assert_eq!(
            links[1].address,
            "https://profiler.firefox.com/from-url/http%3A%2F%2Flocalhost%3A90%2Fab%2Fprofile.json/\
             ?symbolServer=http%3A%2F%2Flocalhost%3A90%2Fab"
        );
    }
}
