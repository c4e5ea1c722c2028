//! Counting without the right to the kernel's part: it is left out, and what happens in the kernel only cannot be
//! counted. The kernel would count 0 (`perf_exclude_event` of kernel/events/core.c), which is not the same.

use pmuscope_abi::{Attr, AttrFlags, event_type, software};
use pmuscope_events::Event;
use pmuscope_machine::{Machine, Target};

use super::Asked;
use crate::commands::record::events::forbids_kernel;

/// `kernel.perf_event_paranoid` keeps us from counting the kernel.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) struct UserMode {
    level: i32,
}

impl UserMode {
    /// Where it does.
    pub(in crate::commands) fn of(machine: &Machine, target: &Target) -> Option<Self> {
        let level = forbids_kernel(machine, target)?;
        Some(Self { level })
    }

    /// What the user has to know.
    pub(in crate::commands) fn notice(self) -> String {
        format!(
            "counting user mode only, since perf_event_paranoid is {} and pmuscope has no CAP_PERFMON. Try: sudo \
             sysctl kernel.perf_event_paranoid=1",
            self.level
        )
    }

    /// Leaves out the kernel's part of all events; those that have no other are absent then. Whether anything
    /// was changed.
    pub(in crate::commands) fn limit(self, asked: &mut Asked) -> bool {
        let mut is_changed = false;
        for group in &mut asked.groups {
            group.events.retain_mut(|event| {
                let before = event.attr.flags;
                let can_be = limit(event);
                is_changed |= !can_be || event.attr.flags != before;
                if !can_be {
                    asked.absent.push((event.name.clone(), self.why_not()));
                }
                can_be
            });
        }
        asked.groups.retain(|group| !group.events.is_empty());
        is_changed
    }

    /// The same for a list, from which those that cannot be counted are taken.
    pub(in crate::commands) fn limit_all(self, events: &mut Vec<Event>) {
        events.retain_mut(limit);
    }

    fn why_not(self) -> String {
        format!(
            "it happens in the kernel: perf_event_paranoid is {} and pmuscope has no CAP_PERFMON. Try: sudo \
             sysctl kernel.perf_event_paranoid=1",
            self.level
        )
    }
}

/// Whether the event can be counted in user mode; then it is of user mode alone.
fn limit(event: &mut Event) -> bool {
    let flags = &mut event.attr.flags;
    if flags.contains(AttrFlags::EXCLUDE_KERNEL) || event.attr.event_type == event_type::TRACEPOINT
    {
        return true;
    }
    // Of the kernel alone, as asked for or by nature.
    if flags.contains(AttrFlags::EXCLUDE_USER) || is_of_kernel(&event.attr) {
        return false;
    }
    event.attr.flags.insert(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
    let has_modifiers = event.name.ends_with('/')
        || event.name.contains(':') && event.attr.event_type != event_type::BREAKPOINT;
    event.name.push_str(if has_modifiers { "u" } else { ":u" });
    true
}

/// Events of software that the kernel itself makes.
fn is_of_kernel(attr: &Attr) -> bool {
    let of_kernel =
        [software::CONTEXT_SWITCHES, software::CPU_MIGRATIONS, software::CGROUP_SWITCHES];
    attr.event_type == event_type::SOFTWARE && of_kernel.contains(&attr.config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_events::MachineCatalog;

    #[test]
    fn the_kernels_part_is_left_out_and_what_has_no_other_is_absent() {
        let machine = Machine::host();
        let catalog = MachineCatalog::new(&machine).unwrap();
        let mut asked = Asked::default();
        asked.add("{task-clock,cs},page-faults:u,mem:0x10/8:w", &catalog).unwrap();
        let user = UserMode { level: 2 };
        assert!(user.limit(&mut asked));
        let names: Vec<&str> =
            asked.groups.iter().flat_map(|group| &group.events).map(|one| &*one.name).collect();
        assert_eq!(names, ["task-clock:u", "page-faults:u", "mem:0x10/8:w:u"]);
        assert_eq!(asked.absent.len(), 1);
        assert_eq!(asked.absent[0].0, "cs");
        assert!(asked.absent[0].1.contains("paranoid is 2"));
        assert!(!user.limit(&mut asked), "once is enough");
    }
}
