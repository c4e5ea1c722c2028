//! What a line is about, and what a reader can do with it.

use std::sync::Arc;

use pmuscope_profile::ModuleSummary;
use pmuscope_profile::views::{CallSite, Dimension, Key as RowKey};

use pmuscope_report::place_text;

use crate::code_view::CodeForm;
use crate::step::FilterStep;

/// What a line names. What it does not name is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) comm: Option<Arc<str>>,
    pub(crate) process: Option<i64>,
    pub(crate) thread: Option<i64>,
    pub(crate) cpu: Option<i64>,
    pub(crate) node: Option<i64>,
    /// Index of the module.
    pub(crate) module: Option<u32>,
    pub(crate) function: Option<Arc<str>>,
    /// The function that holds its code, if it was inlined.
    pub(crate) inlined_into: Option<Arc<str>>,
    /// It is a function, if perhaps one without a name.
    pub(crate) is_code: bool,
}

/// What can be done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// A filter more.
    Keep(FilterStep),
    /// The code of a function.
    Annotate(CodeOf),
    /// Who calls a function, and what it calls; of a comm.
    Neighbors(CallSite, Option<Arc<str>>),
}

/// A function whose code is to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodeOf {
    /// `None`: all code of the module that has no function.
    pub(crate) function: Option<Arc<str>>,
    pub(crate) inlined_into: Option<Arc<str>>,
    /// Index of the module.
    pub(crate) module: u32,
    /// What is shown first.
    pub(crate) listing: CodeForm,
}

/// An entry of the menu: its key, what it says, what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) key: char,
    pub(crate) text: String,
    pub(crate) action: Action,
}

impl Subject {
    /// Of a row by some dimensions.
    pub(crate) fn of_row(by: &[Dimension], keys: &[RowKey]) -> Self {
        let is_code = by.contains(&Dimension::Function) && by.contains(&Dimension::Module);
        let mut out = Self { is_code, ..Self::default() };
        for (dimension, key) in by.iter().zip(keys) {
            match (dimension, key) {
                (Dimension::Command, RowKey::Name(name)) => out.comm = Some(Arc::clone(name)),
                (Dimension::Function, RowKey::Name(name)) => out.function = Some(Arc::clone(name)),
                (Dimension::Process, RowKey::Number(pid)) => out.process = Some(*pid),
                (Dimension::Thread, RowKey::Number(tid)) => out.thread = Some(*tid),
                (Dimension::Cpu, RowKey::Number(cpu)) => out.cpu = Some(*cpu),
                (Dimension::Node, RowKey::Number(node)) => out.node = Some(*node),
                (Dimension::Module, RowKey::Module(module)) => out.module = Some(*module),
                _ => {}
            }
        }
        out
    }

    /// Of a function.
    pub(crate) fn of_site(site: &CallSite) -> Self {
        Self {
            module: Some(site.module),
            function: site.function.clone(),
            is_code: true,
            ..Self::default()
        }
    }

    /// Everything it names, in full: a table shortens names.
    pub(crate) fn in_full(&self, modules: &[ModuleSummary]) -> Vec<String> {
        let number = |what: &str, number: Option<i64>| Some(format!("{what} {}", number?));
        let name = |what: &str, name: &Option<Arc<str>>| Some(format!("{what} {}", name.as_ref()?));
        let module = self.module.and_then(|at| modules.get(at as usize));
        let unnamed = self.is_code && self.function.is_none();
        [
            name("function", &self.function),
            unnamed.then(|| "function [unknown]".to_owned()),
            name("inlined into", &self.inlined_into),
            module.map(|module| format!("DSO {}", module.path)),
            module.and_then(|module| Some(format!("build ID {}", module.build_id.as_ref()?))),
            name("comm", &self.comm),
            number("process", self.process),
            number("thread", self.thread),
            number("CPU", self.cpu),
            number("NUMA node", self.node),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// All that can be done, in the order of the menu. perf's keys: `a`, `d`, `t`.
    pub(crate) fn choices(&self, modules: &[ModuleSummary]) -> Vec<Choice> {
        let mut out = Vec::new();
        let mut add = |key, text: String, action| out.push(Choice { key, text, action });
        if let Some(module) = self.module.filter(|_| self.is_code) {
            let name = self.function.as_deref().unwrap_or("[unknown]");
            let (function, inlined_into) = (self.function.clone(), self.inlined_into.clone());
            let listing = CodeForm::Source;
            let code = CodeOf { function, inlined_into, module, listing };
            add('a', format!("annotate {name}"), Action::Annotate(code));
        }
        if let Some(module) = self.module.filter(|_| self.is_code) {
            let site = CallSite { function: self.function.clone(), module };
            let name = place_text(&site, modules);
            let neighbors = Action::Neighbors(site, self.comm.clone());
            add('n', format!("callers and callees of {name}"), neighbors);
            let (function, inlined_into) = (self.function.clone(), self.inlined_into.clone());
            let code = CodeOf { function, inlined_into, module, listing: CodeForm::Assembly };
            add('A', format!("instructions of {name}"), Action::Annotate(code));
        }
        if let Some(name) = &self.function {
            let through = FilterStep::Through(Arc::clone(name));
            add('x', format!("keep call stacks through {name}"), Action::Keep(through));
            let within = FilterStep::Function(Arc::clone(name));
            add('f', format!("keep samples in {name}"), Action::Keep(within));
        }
        if let Some(module) = self.module.and_then(|at| modules.get(at as usize)) {
            let dso = FilterStep::Dso(module.path.clone());
            add('d', format!("keep DSO {}", module.short_name()), Action::Keep(dso));
        }
        if let Some(tid) = self.thread {
            add('t', format!("keep thread {tid}"), Action::Keep(FilterStep::Thread(tid)));
        }
        if let Some(pid) = self.process {
            add('p', format!("keep process {pid}"), Action::Keep(FilterStep::Process(pid)));
        }
        if let Some(comm) = &self.comm {
            // Rows without thread ids: perf's key keeps the comm instead.
            let key = if self.thread.is_none() { 't' } else { 'c' };
            let keep = || Action::Keep(FilterStep::Comm(Arc::clone(comm)));
            add(key, format!("keep comm {comm}"), keep());
            if key == 't' {
                add('c', format!("keep comm {comm}"), keep());
            }
        }
        if let Some(cpu) = self.cpu {
            add('u', format!("keep CPU {cpu}"), Action::Keep(FilterStep::Cpu(cpu)));
        }
        if let Some(node) = self.node {
            add('o', format!("keep node {node}"), Action::Keep(FilterStep::Node(node)));
        }
        out
    }
}
