use super::*;
use crate::sharing::LinePage;

/// Word, thread, contended loads of cost 2 each, writes.
fn uses(all: &[(u32, u32, u64, u64)]) -> Vec<CountedUse> {
    let one = |&(word, thread, contended, writes): &(u32, u32, u64, u64)| {
        (WordUse { word, thread, contended, cost: 2 * contended, writes }, contended + writes)
    };
    counted_uses(&all.iter().map(one).collect(), true)
}

fn of(all: &[(u32, u32, u64, u64)]) -> Vec<(SharingAdvice, u64)> {
    of_words(&uses(all)).into_iter().map(|one| (one.advice, one.cost)).collect()
}

#[test]
fn a_counter_of_all_wants_copies_and_a_word_of_one_fewer_writes() {
    let counter = of(&[(8, 1, 50, 90), (8, 2, 60, 80)]);
    assert_eq!(counter, [(SharingAdvice::Copies(vec![8]), 220)]);
    let published = of(&[(8, 1, 0, 90), (8, 2, 60, 0), (8, 3, 40, 0)]);
    assert_eq!(published, [(SharingAdvice::Batch(vec![8]), 200)]);
    // Who only reads a counter has to add copies up.
    let both = of(&[(8, 1, 50, 90), (8, 2, 60, 80), (8, 3, 40, 0), (16, 1, 0, 90), (16, 2, 10, 0)]);
    let batch = (SharingAdvice::Batch(vec![16]), 20);
    assert_eq!(both, [(SharingAdvice::Copies(vec![8]), 220), batch]);
    assert_eq!(of(&[(8, 1, 50, 90), (16, 2, 60, 80)]), []);
}

#[test]
fn without_writes_those_who_load_count_as_writers() {
    let counted = uses(&[(0, 1, 50, 0), (8, 2, 60, 0)]);
    assert!(counted.iter().all(|one| one.one.writes > 0));
    let costless: LineUses =
        vec![(WordUse { word: 0, thread: 1, contended: 7, cost: 0, writes: 0 }, 7)];
    assert_eq!(counted_uses(&costless, false)[0].one.cost, 7);
}

/// CPU, accesses, contended loads, remote ones, cost of all and of remote ones.
fn line(cpus: &[(u32, [u64; 5])]) -> SharedLine {
    let one = |&(cpu, [accesses, contended, remote, cost, remote_cost]): &(u32, [u64; 5])| {
        let sums = AccessSums::made([accesses, contended, remote], [cost, remote_cost]);
        (Some(cpu), sums)
    };
    SharedLine {
        address: 0,
        pid: None,
        in_kernel: false,
        module: Arc::from(""),
        sums: crate::sharing::AccessSums::default(),
        interval: None,
        cost_per_s: None,
        physical: None,
        mappings: Vec::new(),
        page: LinePage::default(),
        verdict: super::super::verdict::judge(&[]),
        offsets: Vec::new(),
        rows: Vec::new(),
        pairs: Vec::new(),
        threads: Vec::new(),
        cpus: cpus.iter().map(one).collect(),
        heap_objects: Vec::new(),
        advice: Vec::new(),
    }
}

#[test]
fn threads_belong_on_the_node_that_has_most_accesses() {
    let node = |cpu: u32| Some(cpu / 2);
    // 20 of 30 contended loads are remote: 200 each, 100 the others.
    let far = line(&[
        (0, [60, 10, 0, 1000, 0]),
        (1, [20, 5, 5, 1000, 1000]),
        (2, [20, 15, 15, 3000, 3000]),
    ]);
    let found = far.placement(node).unwrap();
    assert_eq!((found.node, found.share, found.cost), (0, 0.8, 2000));
    assert!((found.remote_share - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(far.placement(|cpu| (cpu > 0).then_some(0)), None);
    assert_eq!(far.placement(|_| Some(0)), None);
    // All remote: their whole latency is the bound.
    let all = line(&[(0, [60, 10, 10, 2000, 2000]), (2, [20, 10, 10, 2000, 2000])]);
    assert_eq!(all.placement(node).unwrap().cost, 4000);
    // Half on each node: no node is the one.
    let even = line(&[(0, [20, 10, 10, 2000, 2000]), (2, [20, 10, 10, 2000, 2000])]);
    assert_eq!(even.placement(node), None);
    assert_eq!(line(&[]).placement(node), None);
}

#[test]
fn what_a_line_covers_of_elements() {
    let layout = TypeLayout {
        name: "struct slot".into(),
        bytes: 40,
        align: 8,
        kind: pmuscope_symbols::definitions::LayoutKind::Record,
        is_packed: false,
        has_virtual_bases: false,
        is_ordered_by_compiler: false,
        fields: Vec::new(),
    };
    let part =
        PartLayout { path: String::new(), offset: 0, repeated: None, has_several: true, layout };
    let covers = |address, array| covered(address, 64, 100, array, &part);
    // Elements at 100, 140, 180, 220: of the second 24 bytes, the third, 36 bytes of the last.
    assert_eq!(covers(128, (40, 4)), [28..40, 0..40, 0..12]);
    assert_eq!(covers(192, (40, 4)), [12..40, 0..36]);
    assert_eq!(covers(64, (40, 4)), vec![0..28; 1]);
    assert_eq!(covers(0, (40, 4)), []);
    assert_eq!(covers(640, (40, 4)), []);
    assert_eq!(covers(128, (u64::MAX, 1)), vec![28..40; 1]);
}

/// Two variables next to each other, each of one thread.
#[test]
fn variables_of_different_threads_get_lines_of_their_own() {
    let offset = |offset: u32, name: &str| crate::sharing::LineOffset {
        offset,
        object: Some(Arc::from(name)),
        type_name: None,
        field: None,
        within: Some(0),
        heap_object: None,
        word: offset,
        sums: crate::sharing::AccessSums::default(),
        contended_p90: None,
    };
    let all = [(0, 1, 50, 90), (8, 2, 60, 80)];
    let one = |&(word, thread, contended, writes): &(u32, u32, u64, u64)| {
        (WordUse { word, thread, contended, cost: 2 * contended, writes }, contended + writes)
    };
    let uses: Vec<LineUses> = vec![all.iter().map(one).collect()];
    let mut shared = line(&[]);
    shared.address = 0x1000;
    shared.offsets = vec![offset(0, "hits"), offset(8, "misses")];
    let words: Vec<WordUse> = uses[0].iter().map(|one| one.0).collect();
    shared.verdict = super::super::verdict::judge(&words);
    let mut lines = [shared];
    let asked = queries(&lines, &uses, 1);
    assert_eq!(asked.len(), 2);
    assert_eq!(
        (asked[1].start, &*asked[1].variable, &asked[1].offsets[..]),
        (0x1008, "misses", &[8][..])
    );
    advise(&mut lines, &uses, &[], (64, true));
    let names = vec![Arc::from("hits"), Arc::from("misses")];
    let expected = LineAdvice { advice: SharingAdvice::Separate(names), cost: 220 };
    assert_eq!(lines[0].advice, [expected]);
    // Only one of them has a name: then nothing is known of the other.
    lines[0].offsets[1].object = None;
    advise(&mut lines, &uses, &[], (64, true));
    assert_eq!(lines[0].advice, []);
}
