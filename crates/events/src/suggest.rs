//! The names nearest to what was typed.

/// Names longer than this are not compared: nobody mistypes that much.
const LONGEST: usize = 64;
/// How many names a message offers.
const OFFERED: usize = 3;

/// Up to three of `names` that `typed` may have meant, nearest first: at most a third of the letters
/// differ, or one is the beginning of the other.
pub(crate) fn nearest<I>(typed: &str, names: I) -> Vec<String>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let typed = typed.to_ascii_lowercase();
    let allowed = (typed.chars().count() / 3).max(1);
    let mut found: Vec<(usize, String)> = Vec::new();
    for name in names {
        let name = name.as_ref();
        let lower = name.to_ascii_lowercase();
        let is_start = typed.len() >= 3 && lower.starts_with(&typed);
        let distance = if is_start { Some(1) } else { distance(&typed, &lower, allowed) };
        if let Some(distance) = distance {
            found.push((distance, name.to_owned()));
        }
    }
    found.sort();
    found.dedup();
    let best = found.first().map_or(0, |&(distance, _)| distance);
    let close = found.into_iter().filter(|&(distance, _)| distance <= best + 1);
    close.take(OFFERED).map(|(_, name)| name).collect()
}

/// Edits (insert, delete, replace, swap neighbors) from `a` to `b`; `None` above `limit`.
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    if a.len() > LONGEST || b.len() > LONGEST || a.len().abs_diff(b.len()) > limit {
        return None;
    }
    // Rows of the classic table: two before, one before, current.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replace = last[j] + usize::from(x != y);
            let mut best = replace.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|&edits| edits <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_come_first_and_far_ones_not_at_all() {
        let names = ["cycles", "cpu-cycles", "instructions", "cache-misses", "branch-misses"];
        assert_eq!(nearest("instuctions", names), ["instructions"]);
        assert_eq!(nearest("cylces", names), ["cycles"]);
        assert_eq!(nearest("Cycles", names), ["cycles"]);
        assert_eq!(nearest("branch", names), ["branch-misses"]);
        assert!(nearest("zzzzzzz", names).is_empty());
        assert!(nearest("", names).is_empty());
    }

    #[test]
    fn edits_are_counted() {
        assert_eq!(distance("abc", "abc", 3), Some(0));
        assert_eq!(distance("abc", "acb", 3), Some(1));
        assert_eq!(distance("abc", "abd", 3), Some(1));
        assert_eq!(distance("abc", "ab", 3), Some(1));
        assert_eq!(distance("abc", "xyz", 2), None);
        assert_eq!(distance("", "abc", 3), Some(3));
    }
}
