//! `pmuscope browse` on a terminal of its own: every view, every key.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::harness::{Scratch, need_program, skip_unless};
use crate::recording::need_root_clock;
use crate::top_screen::need_pseudo_terminal;

/// Why it cannot be tried; `None` if it can.
fn need_terminal() -> Option<String> {
    let python = || need_program("python3", "--version");
    need_root_clock().or_else(python).or_else(need_pseudo_terminal)
}

/// Two threads with names, and functions that call one another.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
static volatile unsigned long sink;
__attribute__((noinline)) void leaf_hash(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) sink += i * i;
}
__attribute__((noinline)) void parse_line(void) { leaf_hash(200000); sink++; }
__attribute__((noinline)) void send_reply(void) { leaf_hash(50000); sink++; }
static void *parser(void *end) {
    pthread_setname_np(pthread_self(), "parser");
    for (int i = 0; i < *(int *)end; i++) parse_line();
    return 0;
}
static void *sender(void *end) {
    pthread_setname_np(pthread_self(), "sender");
    for (int i = 0; i < *(int *)end; i++) send_reply();
    return 0;
}
int main(void) {
    pthread_t one, two;
    int rounds = 1500;
    pthread_create(&one, 0, parser, &rounds);
    pthread_create(&two, 0, sender, &rounds);
    pthread_join(one, 0);
    pthread_join(two, 0);
}
"#;

/// A recording of that program, with callchains.
fn recorded() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("program.c", PROGRAM);
    let flags = ["-g", "-O1", "-fno-omit-frame-pointer", "-pthread", "-o", "program", "program.c"];
    scratch.run("gcc", flags).exits(0);
    let args = ["record", "-g", "-e", "cpu-clock", "-F", "997", "-o", "x.data", "--", "./program"];
    scratch.pmuscope(args).exits(0);
    scratch
}

/// What came of `browse` with these flags, doing as `steps` say.
#[track_caller]
fn browse(scratch: &Scratch, flags: &[&str], steps: &Value) -> Value {
    let steps = steps.to_string();
    let driver = ["-c", include_str!("pty.py"), &steps, env!("CARGO_BIN_EXE_pmuscope"), "browse"];
    let outcome = scratch.run("python3", driver.iter().chain(flags));
    let ended: Value = serde_json::from_str(&outcome.exits(0).stdout).unwrap();
    let mut screens = String::new();
    for screen in ended["screens"].as_array().unwrap() {
        let _ = writeln!(screens, "{}\n---", screen.as_str().unwrap());
    }
    assert_eq!(ended["failure"], Value::Null, "{screens}");
    assert_eq!((&ended["status"], &ended["restored"]), (&json!(0), &json!(true)), "{screens}");
    ended
}

/// The screen after a step.
fn screen(ended: &Value, step: usize) -> &str {
    ended["screens"][step].as_str().unwrap()
}
