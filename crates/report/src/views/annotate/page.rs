//! Functions from inside on the page of their recording.

use pmuscope_profile::{Annotation, FunctionNames, FunctionShare, ModuleSummary};

use super::missing::missing;
use super::sections::section;
use crate::markup::{Markup, html};

/// Annotated functions of one event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodePart<'a> {
    pub(crate) annotations: &'a [Annotation<'a>],
    /// The event's number in the profile.
    pub(crate) event: u32,
    /// Its place on the page.
    pub(crate) at: usize,
}

impl<'a> CodePart<'a> {
    /// Functions with samples of the event, each with its number on the page.
    fn functions(self) -> impl Iterator<Item = (usize, &'a Annotation<'a>)> {
        let has_samples = move |annotation: &Annotation<'_>| {
            annotation.events.iter().any(|(event, _)| event.index == self.event)
        };
        self.annotations.iter().enumerate().filter(move |(_, annotation)| has_samples(annotation))
    }

    /// Whether there is none.
    pub(crate) fn is_empty(self) -> bool {
        self.functions().next().is_none()
    }

    fn id(self, function: usize) -> String {
        format!("code-{}-{function}", self.at)
    }

    /// What leads from a row of the table of functions to its code: that of its own, or of the function that it was
    /// inlined into.
    pub(crate) fn link(
        self,
        row: &FunctionShare,
        names: &FunctionNames,
        modules: &[ModuleSummary],
    ) -> Option<String> {
        let holder = names.inlined_into(row).or_else(|| names.function_of(row))?;
        let path = &modules.get(row.module)?.path;
        let is_it = |annotation: &Annotation<'_>| {
            annotation.function == holder && annotation.module.path == *path
        };
        let (at, _) = self.functions().find(|(_, annotation)| is_it(annotation))?;
        Some(self.id(at))
    }

    /// The part of the page.
    pub(crate) fn html(self) -> Markup {
        html! {
            section id={ "code-" (self.at) } {
                h2 { "Code" }
                p class="dim" {
                    "Samples by source line and instruction. A sample can land on an instruction after the one that took "
                    "the time (skid)."
                }
                @for (at, annotation) in self.functions() {
                    div id=(self.id(at)) {
                        @for (event, hits) in annotation.events.iter().filter(|(event, _)| event.index == self.event) {
                            (section(annotation, (event, hits), false).inner_html())
                        }
                        @for line in missing(annotation) { p class="note" { (line) } }
                    }
                }
            }
            "\n"
        }
    }
}
