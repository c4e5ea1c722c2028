//! Targets in the kernel.

use pmuscope_machine::Machine;
use pmuscope_symbols::definitions::{Expression, KernelNameError, KernelSymbol, kernel_symbols};

use super::{BARE, ResolveError, Watchpoint, pieces};
use crate::target::{Access, Module, Target, TargetLocation};

/// The watchpoint of a target in the kernel.
pub(super) fn one(machine: &Machine, target: &Target) -> Result<Watchpoint, ResolveError> {
    let refuse = |why: String| ResolveError::Kernel { target: target.text.clone(), why };
    match &target.place {
        TargetLocation::Address(address) if target.is_kernel() => match target.access {
            Some(Access::Execute) => pieces::code(target, &[*address]),
            access => {
                let len = target.len.unwrap_or(BARE);
                let object = pieces::Object {
                    target,
                    address: *address,
                    len,
                    of_type: target.len.is_none(),
                };
                pieces::data(&object, access.unwrap_or(Access::Write))
            }
        },
        TargetLocation::Named {
            module: Module::Any | Module::Kernel, expression, offset, ..
        } => named(machine, target, expression, *offset),
        TargetLocation::Line { file, .. } => Err(refuse(format!(
            "source lines of the kernel are not supported ({file}). Try: a function, \
             kernel!vfs_read:x"
        ))),
        _ => Err(refuse(
            "it is not in the kernel, and no process was given. Try: -p PID, or kernel!NAME".into(),
        )),
    }
}

fn named(
    machine: &Machine,
    target: &Target,
    expression: &Expression,
    offset: u64,
) -> Result<Watchpoint, ResolveError> {
    let refuse = |why: String| ResolveError::Kernel { target: target.text.clone(), why };
    let name = expression.name();
    if !expression.is_name() {
        return Err(refuse(format!(
            "fields of kernel variables are not supported. Try: bytes, kernel!{name}+0x28/8"
        )));
    }
    let found = kernel_symbols(machine, &name).map_err(|error| match error {
        KernelNameError::Hidden => ResolveError::KernelHidden { target: target.text.clone() },
        other => refuse(format!("{other}. Try: grep -w NAME /proc/kallsyms")),
    })?;
    let symbol = only(target, &name, &found)?;
    if symbol.is_per_cpu() {
        return Err(refuse(format!(
            "{name} is a per-CPU variable, with a different address on each CPU. Try: an address, \
             0xffff…/8"
        )));
    }
    let address = symbol.address.wrapping_add(offset);
    match (target.access, symbol.code) {
        (None | Some(Access::Execute), true) => pieces::code(target, &[address]),
        (Some(_), true) => {
            Err(ResolveError::Function { target: target.text.clone(), name: target.name.clone() })
        }
        (Some(Access::Execute), false) => {
            Err(ResolveError::Variable { target: target.text.clone(), name: target.name.clone() })
        }
        (access, false) => {
            // The kernel's symbol table has no sizes.
            let text = || (target.text.clone(), target.name.clone());
            let no_size = || {
                let (target, name) = text();
                ResolveError::NoSize { target, name }
            };
            let len = target.len.ok_or_else(no_size)?;
            let object = pieces::Object { target, address, len, of_type: false };
            pieces::data(&object, access.unwrap_or(Access::Write))
        }
    }
}

/// The only symbol of this name.
fn only<'a>(
    target: &Target,
    name: &str,
    found: &'a [KernelSymbol],
) -> Result<&'a KernelSymbol, ResolveError> {
    match found {
        [one] => Ok(one),
        several if several.windows(2).all(|two| two[0].address == two[1].address) => {
            Ok(&several[0])
        }
        several => Err(ResolveError::Ambiguous {
            target: target.text.clone(),
            choices: (several.iter().take(5))
                .map(|one| {
                    let module = one.module.as_deref().unwrap_or("the kernel");
                    format!("{:#x} ({name} of {module})", one.address)
                })
                .collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Kind;

    const KALLSYMS: &str = "0000000000012340 A current_task
ffffffff81000100 T vfs_read
ffffffff82000000 D jiffies
ffffffffc0000000 t helper\t[ext4]
ffffffffc0010000 t helper\t[xfs]
";

    fn machine(kallsyms: &str) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/kallsyms"), kallsyms).unwrap();
        let machine = Machine::at(root.path());
        (root, machine)
    }

    fn ask(text: &str, kallsyms: &str) -> Result<Watchpoint, String> {
        let (_root, machine) = machine(kallsyms);
        one(&machine, &Target::parse(text).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_and_functions_of_the_kernel_have_addresses() {
        let jiffies = ask("kernel!jiffies/8", KALLSYMS).unwrap();
        assert_eq!((jiffies.address, jiffies.len), (0xffff_ffff_8200_0000, 8));
        assert_eq!((jiffies.access, jiffies.in_kernel), (Access::Write, true));
        let read = ask("[kernel]!vfs_read", KALLSYMS).unwrap();
        assert_eq!((read.kind, read.access), (Kind::Instruction, Access::Execute));
        let plain = ask("jiffies+4/4:rw", KALLSYMS).unwrap();
        assert_eq!(plain.address, 0xffff_ffff_8200_0004);
        assert_eq!(ask("0xffffffff82000000/8", KALLSYMS).unwrap().address, jiffies.address);
    }

    #[test]
    fn what_the_kernel_cannot_give_is_said() {
        let error = |text: &str| ask(text, KALLSYMS).unwrap_err();
        assert_eq!(
            error("kernel!jifies/8"),
            "cannot watch kernel!jifies/8: the kernel has no symbol jifies. Similar: jiffies. Try: \
             grep -w NAME /proc/kallsyms"
        );
        assert_eq!(
            error("kernel!jiffies"),
            "cannot watch kernel!jiffies: its size is unknown. Try: kernel!jiffies/8"
        );
        assert!(error("kernel!vfs_read:w").contains("is a function, which is executed"));
        assert!(error("kernel!jiffies:x").contains("is a variable, which is not executed"));
        assert!(error("kernel!current_task/8").contains("a per-CPU variable"));
        assert!(error("kernel!jiffies.x").contains("Try: bytes, kernel!jiffies+0x28/8"));
        assert!(error("kernel!helper").contains("0xffffffffc0010000 (helper of xfs)"));
        assert!(error("file.c:12").contains("source lines of the kernel are not supported"));
        assert!(error("0x10/4").contains("no process was given"));
        let hidden = ask("kernel!jiffies/8", "0000000000000000 D jiffies\n").unwrap_err();
        assert_eq!(
            hidden,
            "cannot watch kernel!jiffies/8: the kernel hides its addresses (kernel.kptr_restrict). Try: sudo pmuscope watch …, or sudo sysctl kernel.kptr_restrict=0"
        );
    }
}
