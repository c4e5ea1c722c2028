//! Allocation sites that tests know by function.

use std::collections::VecDeque;
use std::hint::black_box;

#[inline(never)]
fn by_vec(bytes: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes);
    all.resize(bytes, 1);
    all
}

#[inline(never)]
fn by_box() -> Box<[u64; 5000]> {
    Box::new([black_box(7); 5000])
}

#[inline(never)]
fn by_growing(number: u64) -> VecDeque<u64> {
    let mut all = VecDeque::new();
    for value in 0..number {
        all.push_back(value);
    }
    all
}

#[inline(never)]
fn by_zeroed(bytes: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    all.iter_mut().for_each(|byte| *byte = 3);
    all
}

fn main() {
    let kept = (by_vec(40_000), by_box(), by_growing(6000), by_zeroed(300_000));
    black_box(&kept);
}
