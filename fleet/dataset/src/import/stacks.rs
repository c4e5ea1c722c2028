//! Stacks and frames as rows: each stack that was hit, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use pmuscope_profile::aggregate::{CodeFrame, FrameId, StackId};
use pmuscope_profile::{ModuleKind, ModuleSummary, Profile};
use rustc_hash::FxHashMap;

use crate::identity::{CodeIdentity, StackHasher};
use crate::tables::{FrameRow, StackRow};

pub(super) struct StackRows<'a> {
    profile: &'a Profile,
    modules: Vec<ModuleText>,
    ids: FxHashMap<StackId, i64>,
    stacks: BTreeMap<i64, StackRow>,
    frames: Vec<FrameRow>,
}

/// What all frames of a module share.
struct ModuleText {
    path: Arc<str>,
    build_id: Option<Vec<u8>>,
    build_id_text: Option<Arc<str>>,
    /// Offsets in it are the same on every host.
    has_offsets: bool,
}

impl ModuleText {
    fn new(module: &ModuleSummary) -> Self {
        // perf pads ids to 20 bytes with zeros.
        let id = module.build_id.as_ref().map(|id| {
            let bytes = id.as_bytes();
            let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            bytes[..end].to_vec()
        });
        let text = id.as_ref().map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
        Self {
            path: Arc::from(&*module.path),
            has_offsets: id.is_some() && module.kind == ModuleKind::File,
            build_id: id,
            build_id_text: text.map(|text: String| Arc::from(text)),
        }
    }
}

impl<'a> StackRows<'a> {
    pub(super) fn new(profile: &'a Profile) -> Self {
        Self {
            profile,
            modules: profile.modules.iter().map(ModuleText::new).collect(),
            ids: FxHashMap::default(),
            stacks: BTreeMap::new(),
            frames: Vec::new(),
        }
    }

    /// The number of a stack, whose rows are there from now on.
    pub(super) fn id(&mut self, stack: StackId) -> i64 {
        if let Some(&id) = self.ids.get(&stack) {
            return id;
        }
        let places = self.places(stack);
        let mut hasher = StackHasher::default();
        for place in &places {
            self.hash(place, &mut hasher);
        }
        let (id, digest) = hasher.finish();
        self.ids.insert(stack, id);
        if !self.stacks.contains_key(&id) {
            let row = self.stack_row(id, digest, &places);
            self.stacks.insert(id, row);
            self.add_frames(id, &places);
        }
        id
    }

    pub(super) fn finish(self) -> (Vec<StackRow>, Vec<FrameRow>) {
        (self.stacks.into_values().collect(), self.frames)
    }

    /// Frames of each address, the innermost address first; within it the function that holds the code, then what was
    /// inlined there.
    fn places(&self, stack: StackId) -> Vec<Vec<FrameId>> {
        let counts = &self.profile.aggregate;
        let (mut places, mut open) = (Vec::new(), Vec::new());
        for frame in counts.stacks.frames(stack) {
            open.push(frame);
            if !counts.frames[frame as usize].inlined {
                open.reverse();
                places.push(std::mem::take(&mut open));
            }
        }
        // Callers that were cut off within an inlined function.
        if !open.is_empty() {
            open.reverse();
            places.push(open);
        }
        places
    }

    fn frame(&self, frame: FrameId) -> &'a CodeFrame {
        &self.profile.aggregate.frames[frame as usize]
    }

    fn name(&self, frame: FrameId) -> Option<&'a Arc<str>> {
        let counts = &self.profile.aggregate;
        Some(&counts.functions[self.frame(frame).function? as usize].name)
    }

    fn hash(&self, place: &[FrameId], hasher: &mut StackHasher) {
        let Some(&holder) = place.first() else { return };
        let frame = self.frame(holder);
        let module = &self.modules[frame.module as usize];
        if let (true, Some(build_id), Some(offset)) =
            (module.has_offsets, &module.build_id, frame.address)
        {
            return hasher.push(CodeIdentity::Offset { build_id, offset });
        }
        for &one in place {
            let module = &self.modules[self.frame(one).module as usize].path;
            hasher.push(match self.name(one) {
                Some(function) => CodeIdentity::Function { module, function },
                None => {
                    CodeIdentity::Address { module, address: self.frame(one).address.unwrap_or(0) }
                }
            });
        }
    }

    fn stack_row(&self, stack_id: i64, digest: String, places: &[Vec<FrameId>]) -> StackRow {
        let leaf = places.first().and_then(|place| place.last()).copied();
        let module = leaf.map(|leaf| &self.modules[self.frame(leaf).module as usize].path);
        StackRow {
            stack_id,
            digest: digest.into(),
            leaf: leaf.and_then(|leaf| self.name(leaf)).cloned(),
            leaf_module: module.cloned().unwrap_or_else(|| Arc::from("-")),
            depth: places.len() as i64,
        }
    }

    fn add_frames(&mut self, stack_id: i64, places: &[Vec<FrameId>]) {
        for (depth, place) in (0..).zip(places) {
            for (inline_depth, &id) in (0..).zip(place) {
                let frame = self.frame(id);
                let module = &self.modules[frame.module as usize];
                // Of places that are known by name only, one of several would be shown for all.
                let is_one = module.has_offsets || frame.function.is_none();
                let address = frame.address.filter(|_| is_one);
                let line = frame.line.as_ref().filter(|_| is_one);
                self.frames.push(FrameRow {
                    stack_id,
                    depth,
                    inline_depth,
                    build_id: module.build_id_text.clone(),
                    address: address.map(|address| address as i64),
                    function: self.name(id).cloned(),
                    module: Arc::clone(&module.path),
                    file: line.map(|line| Arc::clone(&line.file)),
                    line: line.and_then(|line| line.number).map(i64::from),
                });
            }
        }
    }
}
