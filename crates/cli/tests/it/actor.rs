//! Programs under test that do exactly what they are told: this test program, started again with
//! orders in its environment.

use std::env;
use std::io::BufRead as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

/// Orders: a word, and what it needs.
const ORDERS: &str = "PMUSCOPE_TEST_ACTOR";

/// This program, about to act.
pub(crate) fn command(orders: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(ARGUMENTS).env(ORDERS, orders);
    command
}

/// The words of a command line that does the same; the orders are in the environment.
pub(crate) fn words() -> Vec<String> {
    let program = env::current_exe().unwrap().to_str().unwrap().to_owned();
    std::iter::once(program).chain(ARGUMENTS.map(str::to_owned)).collect()
}

/// The variable that tells [`words`] what to do.
pub(crate) fn orders(orders: &str) -> (&'static str, &str) {
    (ORDERS, orders)
}

const ARGUMENTS: [&str; 5] =
    ["--exact", "actor::act_if_told_to", "--nocapture", "--test-threads", "1"];

/// No test, unless this program was started by [`command`].
#[test]
fn act_if_told_to() {
    let Ok(orders) = env::var(ORDERS) else { return };
    let words: Vec<&str> = orders.split_whitespace().collect();
    match words.as_slice() {
        ["calls", count] => calls(count.parse().unwrap()),
        ["calls-half-unread", count] => calls_half_unread(count.parse().unwrap()),
        ["calls-by-threads", threads, count] => {
            let (threads, count): (u32, u64) = (threads.parse().unwrap(), count.parse().unwrap());
            let team: Vec<_> = (0..threads).map(|_| thread::spawn(move || calls(count))).collect();
            team.into_iter().for_each(|member| member.join().unwrap());
        }
        ["wait-then-fault", pages] => {
            std::io::stdin().lock().read_line(&mut String::new()).unwrap();
            fault(pages.parse().unwrap());
        }
        ["threads", ms] => threads(Duration::from_millis(ms.parse().unwrap())),
        ["relay", us, ms] => {
            let end = Instant::now() + Duration::from_millis(ms.parse().unwrap());
            relay(Duration::from_micros(us.parse().unwrap()), end);
        }
        ["spin", ms] => spin(Duration::from_millis(ms.parse().unwrap())),
        _ => panic!("no orders: {orders}"),
    }
}

/// Makes `count` times a system call that nothing else on a machine makes often.
fn calls(count: u64) {
    for _ in 0..count {
        rustix::process::getpriority_pgrp(None).unwrap();
    }
}

/// The second half while the program that started this one is stopped.
fn calls_half_unread(count: u64) {
    let starter = rustix::process::getppid().unwrap();
    calls(count / 2);
    rustix::process::kill_process(starter, Signal::STOP).unwrap();
    calls(count - count / 2);
    rustix::process::kill_process(starter, Signal::CONT).unwrap();
}

/// Touches `pages` pages for the first time.
fn fault(pages: usize) {
    let page = rustix::param::page_size();
    let mut memory = vec![0_u8; pages * page];
    memory.iter_mut().step_by(page).for_each(|byte| *byte = 1);
    std::hint::black_box(&memory);
}

/// A new thread every 20 ms; each spins a while, two at a time.
fn threads(duration: Duration) {
    let end = Instant::now() + duration;
    let mut last = thread::spawn(|| spin(Duration::from_millis(40)));
    while Instant::now() < end {
        let next = thread::spawn(|| spin(Duration::from_millis(40)));
        thread::sleep(Duration::from_millis(20));
        last.join().unwrap();
        last = next;
    }
    last.join().unwrap();
}

/// One thread after the other: each spins so long, starts the next one and ends.
fn relay(each: Duration, end: Instant) {
    let (done, is_done) = std::sync::mpsc::channel();
    run_relay(each, end, done);
    is_done.recv().unwrap();
}

fn run_relay(each: Duration, end: Instant, done: std::sync::mpsc::Sender<()>) {
    thread::spawn(move || {
        spin(each);
        if Instant::now() < end {
            run_relay(each, end, done);
        } else {
            done.send(()).unwrap();
        }
    });
}

fn spin(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}
