//! Lists that give each task its CPUs or nodes, in order: as `perf bench numa mem` writes them.

use pmuscope_machine::CpuSet;

/// What a list may look like.
const GRAMMAR: &str = "numbers in the order of tasks, such as 0,2; 0-3 for one each, 0-6#2 with a \
    step, 0_4 for a task with four starting at 0, 0x3 for three tasks";
/// More tasks than can be.
const MOST: usize = 1 << 16;

/// Sets of CPUs or nodes, one for each task: `0,2`, `0-3` for four tasks, `0-6#2` with a step, `0_4` for a task
/// with 0 to 3, `1x3` for three tasks; the last two behind any of the others.
///
/// # Errors
/// Says which element is none of these.
pub fn parse_tasks(flag: &str, text: &str) -> Result<Vec<CpuSet>, String> {
    let mut tasks = Vec::new();
    for element in text.split(',') {
        let sets = parse(element.trim())
            .filter(|sets| tasks.len() + sets.len() <= MOST)
            .ok_or_else(|| format!("{flag} {text}: cannot parse {element:?}. Try: {GRAMMAR}"))?;
        tasks.extend(sets);
    }
    Ok(tasks)
}

fn parse(element: &str) -> Option<Vec<CpuSet>> {
    let (element, times) = split_number(element, 'x', 1)?;
    let (element, length) = split_number(element, '_', 1)?;
    let (element, step) = split_number(element, '#', 1)?;
    let (first, last) = element.split_once('-').unwrap_or((element, element));
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    let fits = last.checked_add(length).is_some_and(|end| end <= CpuSet::MAX);
    if first > last || !fits || [times, length, step].contains(&0) || times as usize > MOST {
        return None;
    }
    let sets = (first..=last).step_by(step as usize).map(|at| (at..at + length).collect());
    Some(sets.flat_map(|set: CpuSet| std::iter::repeat_n(set, times as usize)).collect())
}

/// What stands before `mark`, and the number behind it.
fn split_number(text: &str, mark: char, otherwise: u32) -> Option<(&str, u32)> {
    match text.split_once(mark) {
        None => Some((text, otherwise)),
        Some((before, number)) => Some((before, number.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_those_of_perf() {
        let lists = [
            ("0,2", "0;2"),
            ("0-3", "0;1;2;3"),
            ("0-6#3", "0;3;6"),
            ("4_4", "4-7"),
            ("0_2x2,8", "0-1;0-1;8"),
            ("0-4#4_2x2", "0-1;0-1;4-5;4-5"),
        ];
        for (text, expected) in lists {
            let tasks = parse_tasks("--cpus", text).unwrap();
            let tasks: Vec<String> = tasks.iter().map(ToString::to_string).collect();
            assert_eq!(tasks.join(";"), expected, "{text}");
        }
        for text in
            ["", "a", "3-1", "0x0", "0_0", "0-3#0", "0,", "99999999", "0_99999", "1x9999999"]
        {
            let error = parse_tasks("--cpus", text).unwrap_err();
            assert!(error.starts_with("--cpus ") && error.contains("0_4"), "{error}");
        }
    }
}
