//! The nine situations that the kernel tests its own account with (`hw_breakpoint_test.c`), and some that it
//! does not: slots of two kinds, weights, what is turned into another kind, CPUs that are off.

use pmuscope_watch::slots::{
    Accounting, Cached, Constant, Kind, Layout, Naive, Owner, SlotError, SlotRequest, SlotTask,
    Slots,
};

const CPUS: u32 = 4;
const X86: Layout = Layout { possible_cpus: CPUS, slots: Slots::Mixed(4) };
const ARM: Layout =
    Layout { possible_cpus: CPUS, slots: Slots::Separate { data: 4, instruction: 6 } };

const ME: SlotTask = SlotTask(1);
const OTHER: SlotTask = SlotTask(2);
const C0: Owner = Owner::Cpu(0);
const C1: Owner = Owner::Cpu(1);
const ME_C0: Owner = Owner::TaskOnCpu(ME, 0);
const OTHER_C0: Owner = Owner::TaskOnCpu(OTHER, 0);
const ME_ALL: Owner = Owner::Task(ME);
const OTHER_ALL: Owner = Owner::Task(OTHER);

/// A machine under test: slots of `S` for data.
struct Machine<'a> {
    slots: &'a dyn Accounting,
    s: u32,
}

impl Machine<'_> {
    fn take(&self, owner: Owner, times: u32) {
        for _ in 0..times {
            self.slots.reserve(SlotRequest::data(owner)).unwrap();
        }
    }

    fn give(&self, owner: Owner, times: u32) {
        for _ in 0..times {
            self.slots.release(SlotRequest::data(owner)).unwrap();
        }
    }

    fn is_full(&self, owners: &[Owner]) {
        for &owner in owners {
            let full = SlotError::Full { wanted: 1, used: self.s, slots: self.s };
            assert_eq!(self.slots.reserve(SlotRequest::data(owner)), Err(full), "{owner:?}");
        }
    }

    fn has_room(&self, owner: Owner) {
        self.take(owner, 1);
        self.give(owner, 1);
    }
}

/// Runs a situation on all three, of both kinds of machines; all is given back in the end.
fn each(situation: impl Fn(&Machine<'_>) -> Vec<(Owner, u32)>) {
    for layout in [X86, ARM] {
        let all: [&dyn Accounting; 3] =
            [&Naive::new(layout), &Cached::new(layout), &Constant::new(layout)];
        for slots in all {
            let machine = Machine { slots, s: layout.slots.of(Kind::Data) };
            for (owner, times) in situation(&machine) {
                machine.give(owner, times);
            }
            assert!(slots.is_empty(), "{}", slots.name());
        }
    }
}

#[test]
fn one_cpu() {
    each(|machine| {
        machine.take(C0, machine.s);
        machine.is_full(&[ME_ALL, C0, ME_C0]);
        machine.has_room(C1);
        vec![(C0, machine.s)]
    });
}

#[test]
fn many_cpus() {
    each(|machine| {
        let all: Vec<Owner> = (0..CPUS).map(Owner::Cpu).collect();
        for &cpu in &all {
            machine.take(cpu, machine.s);
            machine.is_full(&[cpu]);
        }
        all.into_iter().map(|cpu| (cpu, machine.s)).collect()
    });
}

#[test]
fn one_task_on_all_cpus() {
    each(|machine| {
        machine.take(ME_ALL, machine.s);
        machine.is_full(&[ME_ALL, ME_C0, C0]);
        machine.give(ME_ALL, 1);
        machine.take(C0, 1);
        vec![(ME_ALL, machine.s - 1), (C0, 1)]
    });
}

#[test]
fn two_tasks_on_all_cpus() {
    each(|machine| {
        machine.take(ME_ALL, machine.s);
        machine.take(OTHER_ALL, machine.s);
        machine.is_full(&[ME_ALL, OTHER_ALL, ME_C0, OTHER_C0, C0]);
        machine.give(ME_ALL, 1);
        // The other task still uses all.
        machine.is_full(&[C0]);
        machine.give(OTHER_ALL, 1);
        machine.take(C0, 1);
        vec![(ME_ALL, machine.s - 1), (OTHER_ALL, machine.s - 1), (C0, 1)]
    });
}

#[test]
fn one_task_on_one_cpu() {
    each(|machine| {
        machine.take(ME_C0, machine.s);
        machine.is_full(&[ME_ALL, ME_C0, C0]);
        machine.give(ME_C0, 1);
        machine.take(C0, 1);
        vec![(ME_C0, machine.s - 1), (C0, 1)]
    });
}

#[test]
fn one_task_mixed() {
    each(|machine| {
        machine.take(ME_C0, 1);
        machine.take(ME_ALL, machine.s - 1);
        machine.is_full(&[ME_ALL, ME_C0, C0]);
        // Nothing of it is bound to a CPU any more.
        machine.give(ME_C0, 1);
        machine.give(ME_ALL, 1);
        machine.take(C0, 2);
        machine.is_full(&[C0]);
        vec![(ME_ALL, machine.s - 2), (C0, 2)]
    });
}

#[test]
fn two_tasks_on_one_cpu() {
    each(|machine| {
        machine.take(ME_C0, machine.s);
        machine.take(OTHER_C0, machine.s);
        machine.is_full(&[ME_ALL, OTHER_ALL, ME_C0, OTHER_C0, C0]);
        machine.take(C1, machine.s);
        vec![(ME_C0, machine.s), (OTHER_C0, machine.s), (C1, machine.s)]
    });
}

#[test]
fn two_tasks_on_one_and_all_cpus() {
    each(|machine| {
        machine.take(ME_C0, machine.s);
        machine.take(OTHER_ALL, machine.s);
        machine.is_full(&[ME_ALL, OTHER_ALL, ME_C0, OTHER_C0, C0, C1]);
        machine.has_room(Owner::TaskOnCpu(ME, 1));
        vec![(ME_C0, machine.s), (OTHER_ALL, machine.s)]
    });
}

#[test]
fn a_task_on_all_and_one_cpu() {
    each(|machine| {
        machine.take(ME_ALL, machine.s - 2);
        machine.take(ME_C0, 1);
        machine.take(ME_ALL, 1);
        machine.is_full(&[ME_ALL, ME_C0, C0]);
        machine.take(C1, 1);
        machine.is_full(&[C1]);
        machine.give(ME_C0, 1);
        // CPU 1 is in the way.
        machine.is_full(&[ME_ALL]);
        machine.give(C1, 1);
        machine.take(ME_ALL, 1);
        machine.is_full(&[ME_ALL, ME_C0, C0, C1]);
        vec![(ME_ALL, machine.s)]
    });
}

#[test]
fn kinds_have_slots_of_their_own_where_the_machine_has() {
    let data = |owner| SlotRequest::data(owner);
    let instruction = |owner| SlotRequest { kind: Kind::Instruction, ..data(owner) };
    for (layout, apart) in [(X86, false), (ARM, true)] {
        let all: [&dyn Accounting; 3] =
            [&Naive::new(layout), &Cached::new(layout), &Constant::new(layout)];
        for slots in all {
            for _ in 0..4 {
                slots.reserve(data(ME_ALL)).unwrap();
            }
            assert!(slots.reserve(data(ME_C0)).is_err());
            let more: Vec<bool> =
                (0..7).map(|_| slots.reserve(instruction(ME_C0)).is_ok()).collect();
            let given = if apart { 6 } else { 0 };
            assert_eq!(more, (0..7).map(|at| at < given).collect::<Vec<_>>(), "{}", slots.name());
            for _ in 0..given {
                slots.release(instruction(ME_C0)).unwrap();
            }
            for _ in 0..4 {
                slots.release(data(ME_ALL)).unwrap();
            }
            assert!(slots.is_empty());
        }
    }
}

#[test]
fn what_cannot_be_turned_into_another_kind_stays_what_it_is() {
    let all: [&dyn Accounting; 3] = [&Naive::new(ARM), &Cached::new(ARM), &Constant::new(ARM)];
    for slots in all {
        for owner in [C0, ME_C0, ME_ALL] {
            let one = SlotRequest { owner, kind: Kind::Instruction, weight: 1 };
            let wide = SlotRequest { owner, kind: Kind::Instruction, weight: 3 };
            slots.reserve(wide).unwrap();
            slots.reserve(one).unwrap();
            slots.modify(one, Kind::Data).unwrap();
            let full = SlotError::Full { wanted: 3, used: 2, slots: 4 };
            slots.reserve(SlotRequest::data(owner)).unwrap();
            assert_eq!(slots.modify(wide, Kind::Data), Err(full), "{}", slots.name());
            assert_eq!(
                slots.modify(SlotRequest { weight: 7, ..one }, Kind::Data),
                Err(SlotError::NotReserved)
            );
            slots.release(SlotRequest::data(owner)).unwrap();
            slots.modify(wide, Kind::Data).unwrap();
            slots.release(SlotRequest { kind: Kind::Data, ..wide }).unwrap();
            slots.release(SlotRequest::data(owner)).unwrap();
            assert!(slots.is_empty(), "{}", slots.name());
        }
    }
}

#[test]
fn cpus_that_are_off_count_and_others_do_not_exist() {
    each(|machine| {
        // The last one is never online here; the kernel keeps room on it all the same.
        let last = Owner::Cpu(CPUS - 1);
        machine.take(last, 1);
        machine.take(ME_ALL, machine.s - 1);
        machine.is_full(&[ME_ALL, last]);
        machine.has_room(ME_C0);
        let none = SlotError::NoSuchCpu { cpu: CPUS, possible_cpus: CPUS };
        for owner in [Owner::Cpu(CPUS), Owner::TaskOnCpu(ME, CPUS)] {
            assert_eq!(machine.slots.reserve(SlotRequest::data(owner)), Err(none));
            assert!(machine.slots.release(SlotRequest::data(owner)).is_err());
        }
        assert_eq!(machine.slots.release(SlotRequest::data(C0)), Err(SlotError::NotReserved));
        assert_eq!(machine.slots.release(SlotRequest::data(OTHER_C0)), Err(SlotError::NotReserved));
        assert_eq!(
            machine.slots.release(SlotRequest::data(OTHER_ALL)),
            Err(SlotError::NotReserved)
        );
        vec![(last, 1), (ME_ALL, machine.s - 1)]
    });
}
