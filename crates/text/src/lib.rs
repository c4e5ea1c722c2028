//! How numbers and tables are set for people, whatever they say.
//!
//! Text goes to a [`String`] first: [`Style`] says what the place it goes to can show, and the caller
//! writes it there.

#![forbid(unsafe_code)]

pub mod number;
pub mod style;
pub mod table;

pub use style::{Paint, ShortenAt, Style, shorten, wrap, wrap_lines, wrap_parts};
pub use table::{Cell, Column, Table, TableLines};
