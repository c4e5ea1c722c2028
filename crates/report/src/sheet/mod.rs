//! A table, declared once: its fields say what they are, and every form of the table follows from them.
//!
//! ```text
//!                    ┌─ text      share  95% CI  samples  DSO
//!  fields × rows ────┼─ CSV, TSV  share,share_low,share_high,samples,module
//!                    ├─ JSON      {"share": 0.5, "share_low": 0.4, "share_high": 0.6, "samples": 60, …}
//!                    └─ HTML      <table> whose columns sort
//! ```
//!
//! Programs get numbers with all digits and full names; people get rounded numbers and short names. A field that
//! only one of both needs says so ([`Field::for_people`], [`Field::for_programs`]). What was not measured is `-` for
//! people, empty in CSV and TSV, and `null` in JSON.
//!
//! A key with a dot is a field of an object in JSON: `before.samples`. A number with its interval has the ends of the
//! interval beside it (`x`, `x_low`, `x_high`); with a key that ends in `.value` they are `low` and `high` of the same
//! object, and its columns in CSV are called by the object.

mod delimited;
mod html;
mod json;
mod margins;
mod text;

use std::borrow::Cow;

use pmuscope_stats::Interval;

use crate::Paint;
use crate::markup::Markup;
use crate::number::counted;
use crate::recording::{NO_INTERVAL, RowLimits};

pub use delimited::Separator;
pub(crate) use delimited::{delimited_by, delimited_together, push_field};
pub(crate) use json::SheetObject;
pub(crate) use text::shown;

/// Names of functions say little below this width.
pub(crate) const NAME: usize = 28;

/// What a field holds in one row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    /// It was not measured, or is not known.
    Missing,
    /// Text, which may be foreign: each form escapes it.
    Text(Cow<'a, str>),
    /// Yes or no.
    Flag(bool),
    /// An exact number.
    Count(u64),
    /// A number that names something: a process, a CPU.
    Id(i64),
    /// An address.
    Address(u64),
    /// A number, with the significant digits that people see.
    Number(f64, usize),
    /// A number with its confidence interval.
    Estimate(f64, Option<Interval>),
    /// A part of a whole, 0 to 1, with its confidence interval.
    Share(f64, Option<Interval>),
    /// How far a part of a whole can be off, 0 to 1.
    Margin(f64),
    /// A share, or a difference of two, and its interval, of which only the interval is shown.
    Limits(f64, Interval),
    /// A time, seconds.
    Seconds(f64),
    /// Several texts, each on its own line of a cell.
    Lines(Vec<String>),
    /// A picture or other markup, which only pages have a form for.
    Drawn(String),
    /// Something that only JSON has a form for.
    Json(serde_json::Value),
}

impl Value<'_> {
    fn into_owned(self) -> Value<'static> {
        match self {
            Value::Missing => Value::Missing,
            Value::Text(text) => Value::Text(text.into_owned().into()),
            Value::Flag(is) => Value::Flag(is),
            Value::Count(value) => Value::Count(value),
            Value::Id(id) => Value::Id(id),
            Value::Address(address) => Value::Address(address),
            Value::Number(value, digits) => Value::Number(value, digits),
            Value::Estimate(value, interval) => Value::Estimate(value, interval),
            Value::Share(share, interval) => Value::Share(share, interval),
            Value::Margin(margin) => Value::Margin(margin),
            Value::Limits(share, of) => Value::Limits(share, of),
            Value::Seconds(seconds) => Value::Seconds(seconds),
            Value::Lines(lines) => Value::Lines(lines),
            Value::Drawn(markup) => Value::Drawn(markup),
            Value::Json(value) => Value::Json(value),
        }
    }
}

/// What all values of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Text,
    Number,
    /// A number with its interval: one cell for people, three values for programs.
    Estimate,
    /// What only a page has.
    Drawn,
    /// A share with its interval: two cells for people, three values for programs.
    Share,
}

/// A form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SheetForm {
    Text,
    Page,
    /// CSV and TSV.
    Delimited,
    Json,
}

impl SheetForm {
    const PEOPLE: &'static [Self] = &[Self::Text, Self::Page];
    const PROGRAMS: &'static [Self] = &[Self::Delimited, Self::Json];
    const ALL: &'static [Self] = &[Self::Text, Self::Page, Self::Delimited, Self::Json];
}

/// Name and form of a field.
#[derive(Debug, Clone)]
struct Heading {
    /// The name for programs. A dot makes a field of an object in JSON: `from.function`.
    key: Cow<'static, str>,
    /// The name in CSV and TSV, where it is another one.
    column: Option<&'static str>,
    /// The ends of an interval are `x low` and `x high` in CSV and TSV, not `x_low` and `x_high`.
    spaced: bool,
    /// The name for people.
    head: Cow<'static, str>,
    /// What a page says where the pointer is on the head.
    about: String,
    kind: FieldKind,
    /// The forms of the table that have the field.
    forms: &'static [SheetForm],
    /// JSON has no such field where the value is missing.
    can_be_absent: bool,
    /// In the row of the total, it says how many rows there are.
    names_rows: bool,
    /// People see no such column where no row has a value.
    only_if_measured: bool,
    /// A page searches the flame graph beside it for what is in this column.
    searches: bool,
    /// Cells are shaded by how much they hold.
    shades: bool,
    /// May be cut where the terminal is too narrow.
    shrinks: bool,
    /// It is cut to no less than this before columns are left out; 0 if that is of no interest.
    wanted: usize,
    /// It is cut at its end, not in the middle.
    is_sentence: bool,
    /// The higher, the earlier it is left out where the terminal is too narrow; 0 if it is what the table is about.
    rank: u8,
    /// What people see of a value that is missing.
    missing: &'static str,
}

/// What a field has in a row.
type Get<'a, R> = Box<dyn Fn(&'a R) -> Value<'a> + 'a>;

/// A column of a table of rows `R`.
pub(crate) struct Field<'a, R> {
    heading: Heading,
    get: Get<'a, R>,
    shown: Option<Get<'a, R>>,
    why: Option<Box<dyn Fn(&'a R) -> &'static str + 'a>>,
    mark: Option<Box<dyn Fn(&'a R) -> Mark + 'a>>,
    paint: Option<Box<dyn Fn(&'a R) -> Paint + 'a>>,
    sort: Option<Box<dyn Fn(&'a R) -> Option<f64> + 'a>>,
}

/// What a page adds to a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mark {
    /// A dot of this color.
    Color(String),
    /// A background of this color, on which dark text is readable.
    Tint(String),
    /// What a click looks for in the flame graph.
    Search(String),
    /// How strong its shade is, 0 to 1.
    Shade(f64),
    /// More about it.
    Title(Option<String>),
    /// The part of the page that it leads to.
    Link(String),
}

impl<'a, R> Field<'a, R> {
    /// A field of any value of this kind.
    pub(crate) fn new(
        key: impl Into<Cow<'static, str>>,
        kind: FieldKind,
        get: impl Fn(&'a R) -> Value<'a> + 'a,
    ) -> Self {
        let key = key.into();
        let heading = Heading {
            column: None,
            spaced: false,
            head: key.clone(),
            key,
            about: String::new(),
            kind,
            forms: SheetForm::ALL,
            can_be_absent: false,
            names_rows: false,
            only_if_measured: false,
            searches: false,
            shades: false,
            shrinks: kind == FieldKind::Text,
            wanted: 0,
            is_sentence: false,
            rank: 0,
            missing: "-",
        };
        let get = Box::new(get);
        Self { heading, get, shown: None, why: None, mark: None, paint: None, sort: None }
    }

    /// Text; `None` where it is not known.
    pub(crate) fn text<T: Into<Cow<'a, str>>>(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Option<T> + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Text, move |row| {
            get(row).map_or(Value::Missing, |text| Value::Text(text.into()))
        })
    }

    /// Yes or no.
    pub(crate) fn flag<T: Into<Option<bool>>>(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> T + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Text, move |row| {
            get(row).into().map_or(Value::Missing, Value::Flag)
        })
        .rigid()
    }

    /// An exact number.
    pub(crate) fn count<T: Into<Option<u64>>>(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> T + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Number, move |row| {
            get(row).into().map_or(Value::Missing, Value::Count)
        })
    }

    /// A number that names something: a process, a CPU.
    pub(crate) fn id<T: Into<i64>>(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Option<T> + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Number, move |row| {
            get(row).map_or(Value::Missing, |id| Value::Id(id.into()))
        })
    }

    /// An address.
    pub(crate) fn address(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Option<u64> + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Number, move |row| {
            get(row).map_or(Value::Missing, Value::Address)
        })
    }

    /// A number, of which people see three significant digits.
    pub(crate) fn number(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Option<f64> + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Number, move |row| {
            get(row).map_or(Value::Missing, |value| Value::Number(value, 3))
        })
    }

    /// A number with its confidence interval; `None` where it was not measured.
    pub(crate) fn estimate(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Option<(f64, Option<Interval>)> + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Estimate, move |row| {
            get(row).map_or(Value::Missing, |(value, interval)| Value::Estimate(value, interval))
        })
    }

    /// A share of a whole without an interval, 0 to 1.
    pub(crate) fn part(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Option<f64> + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Number, move |row| {
            get(row).map_or(Value::Missing, |share| Value::Share(share, None))
        })
    }

    /// A share of a whole, 0 to 1, with its interval where there is one.
    pub(crate) fn share(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> (f64, Option<Interval>) + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Share, move |row| {
            let (share, interval) = get(row);
            Value::Share(share, interval)
        })
    }

    /// A time in seconds.
    pub(crate) fn seconds(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Option<f64> + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Number, move |row| {
            get(row).map_or(Value::Missing, Value::Seconds)
        })
    }

    /// What only JSON has a form for: lists of objects.
    pub(crate) fn json(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> serde_json::Value + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Text, move |row| Value::Json(get(row)))
            .only_in(&[SheetForm::Json])
    }

    /// A number that is written as this text; `None` where it was not measured.
    pub(crate) fn figure<T: Into<Cow<'a, str>>>(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Option<T> + 'a,
    ) -> Self {
        let mut field = Self::text(key, get);
        (field.heading.kind, field.heading.shrinks) = (FieldKind::Number, false);
        field
    }

    /// Several texts in a cell, each on its own line of a page.
    pub(crate) fn lines(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Vec<String> + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Text, move |row| Value::Lines(get(row)))
    }

    /// What only a page has: a picture, or lines with marks. Columns of it sort only by what [`Field::sorted_by`] says.
    pub(crate) fn drawn(
        key: impl Into<Cow<'static, str>>,
        get: impl Fn(&'a R) -> Markup + 'a,
    ) -> Self {
        Self::new(key, FieldKind::Drawn, move |row| Value::Drawn(get(row).into_string()))
            .only_in(&[SheetForm::Page])
    }

    /// Why a share has no interval, where that is not the length of the recording.
    pub(crate) fn why(mut self, why: impl Fn(&'a R) -> &'static str + 'a) -> Self {
        self.why = Some(Box::new(why));
        self
    }

    /// Cells on a page have a dot of this color.
    pub(crate) fn colored(mut self, color: impl Fn(&'a R) -> String + 'a) -> Self {
        self.mark = Some(Box::new(move |row| Mark::Color(color(row))));
        self
    }

    /// The more a row has of this, 0 to 1, the stronger is the shade of its cell on a page.
    pub(crate) fn shaded(mut self, strength: impl Fn(&'a R) -> f64 + 'a) -> Self {
        self.heading.shades = true;
        self.mark = Some(Box::new(move |row| Mark::Shade(strength(row))));
        self
    }

    /// A page shows this where the pointer rests on a cell.
    pub(crate) fn titled(mut self, title: impl Fn(&'a R) -> Option<String> + 'a) -> Self {
        self.mark = Some(Box::new(move |row| Mark::Title(title(row))));
        self
    }

    /// A cell of a page leads to the part with this id.
    pub(crate) fn linked(mut self, id: impl Fn(&'a R) -> String + 'a) -> Self {
        self.mark = Some(Box::new(move |row| Mark::Link(id(row))));
        self
    }

    /// A click on a cell of a page looks in the flame graph for what `name` says.
    pub(crate) fn searches(mut self, name: impl Fn(&'a R) -> String + 'a) -> Self {
        self.heading.searches = true;
        self.mark = Some(Box::new(move |row| Mark::Search(name(row))));
        self
    }

    /// Cells on a page have this color, where there is one.
    pub(crate) fn tinted(mut self, color: impl Fn(&'a R) -> String + 'a) -> Self {
        self.mark = Some(Box::new(move |row| Mark::Tint(color(row))));
        self
    }

    /// How a cell stands out, or back.
    pub(crate) fn painted(mut self, paint: impl Fn(&'a R) -> Paint + 'a) -> Self {
        self.paint = Some(Box::new(paint));
        self
    }

    /// Rows of a page are sorted by this number, which the cells are about.
    pub(crate) fn sorted_by(mut self, number: impl Fn(&'a R) -> Option<f64> + 'a) -> Self {
        self.heading.kind = FieldKind::Number;
        self.sort = Some(Box::new(number));
        self
    }

    /// What a page says where the pointer is on the head.
    pub(crate) fn about(mut self, about: String) -> Self {
        self.heading.about = about;
        self
    }

    /// In the row of the total, it says how many rows there are.
    pub(crate) fn names_rows(mut self) -> Self {
        self.heading.names_rows = true;
        self
    }

    /// JSON has no such field where the value is missing.
    pub(crate) fn absent_if_missing(mut self) -> Self {
        self.heading.can_be_absent = true;
        self
    }

    /// The only forms of the table that have the field: others have what it says elsewhere.
    pub(crate) fn only_in(mut self, forms: &'static [SheetForm]) -> Self {
        self.heading.forms = forms;
        self
    }

    /// The name for people, where it is another one.
    pub(crate) fn head(mut self, head: impl Into<Cow<'static, str>>) -> Self {
        self.heading.head = head.into();
        self
    }

    /// The name in CSV and TSV, where it is another one than in JSON.
    pub(crate) fn column(mut self, column: &'static str) -> Self {
        self.heading.column = Some(column);
        self
    }

    /// The ends of its interval are `x low` and `x high` in CSV and TSV, not `x_low` and `x_high`.
    pub(crate) fn spaced(mut self) -> Self {
        self.heading.spaced = true;
        self
    }

    /// People see no such column where no row has a value.
    pub(crate) fn only_if_measured(mut self) -> Self {
        self.heading.only_if_measured = true;
        self
    }

    /// People see this instead.
    pub(crate) fn shown_as(mut self, shown: impl Fn(&'a R) -> Cow<'a, str> + 'a) -> Self {
        self.shown = Some(Box::new(move |row| Value::Text(shown(row))));
        self
    }

    /// People see this instead, where it is known.
    pub(crate) fn shown_if_known(mut self, shown: impl Fn(&'a R) -> Option<String> + 'a) -> Self {
        self.shown = Some(Box::new(move |row| {
            shown(row).map_or(Value::Missing, |of| Value::Text(of.into()))
        }));
        self
    }

    /// People see this where a value is missing.
    pub(crate) fn missing_as(mut self, missing: &'static str) -> Self {
        self.heading.missing = missing;
        self
    }

    /// Not in CSV, TSV and JSON: other fields have what it says.
    pub(crate) fn for_people(self) -> Self {
        self.only_in(SheetForm::PEOPLE)
    }

    /// Not in text and HTML.
    pub(crate) fn for_programs(self) -> Self {
        self.only_in(SheetForm::PROGRAMS)
    }

    /// At a terminal only: pages have a column for each of its numbers.
    pub(crate) fn for_terminals(self) -> Self {
        self.only_in(&[SheetForm::Text])
    }

    /// On pages only, which have room for more columns than a terminal.
    pub(crate) fn for_pages(self) -> Self {
        self.only_in(&[SheetForm::Page])
    }

    /// Left out where the terminal is too narrow for the table: of several, the highest rank first. An interval has
    /// the rank 1 already.
    pub(crate) fn optional(mut self, rank: u8) -> Self {
        self.heading.rank = rank;
        self
    }

    /// Text that says little below this width.
    pub(crate) fn wanted(mut self, width: usize) -> Self {
        self.heading.wanted = width;
        self
    }

    /// Text that is read from its beginning: cut at its end.
    pub(crate) fn sentence(mut self) -> Self {
        self.heading.is_sentence = true;
        self
    }

    /// Is cut only if nothing else helps.
    pub(crate) fn rigid(mut self) -> Self {
        self.heading.shrinks = false;
        self
    }
}

/// A value in a row, and what people see of it where that is something else.
#[derive(Debug, Clone)]
struct SheetCell<'a> {
    value: Value<'a>,
    shown: Option<Value<'a>>,
    /// Why a share has no interval.
    why: &'static str,
    mark: Option<Mark>,
    paint: Paint,
    /// What a page sorts by, where the value does not say it.
    sort: Option<f64>,
}

impl<'a> SheetCell<'a> {
    /// The value that people see.
    fn for_people(&self) -> &Value<'a> {
        self.shown.as_ref().unwrap_or(&self.value)
    }

    fn into_owned(self) -> SheetCell<'static> {
        let Self { value, shown, why, mark, paint, sort } = self;
        let shown = shown.map(Value::into_owned);
        SheetCell { value: value.into_owned(), shown, why, mark, paint, sort }
    }
}

/// How a column goes from row to row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowOrder {
    Falling,
    Rising,
}

/// A table. Serialized, it is a list of objects, one for each row. Rows are made when they are written: a
/// recording can have millions.
pub(crate) struct Sheet<'a> {
    headings: Vec<Heading>,
    row: Box<dyn Fn(usize) -> Vec<SheetCell<'a>> + 'a>,
    rows: usize,
    /// Sums after the rows, which only people see.
    feet: usize,
    /// Rows that are left out in the middle: where, and what people see there.
    gap: Option<(usize, String)>,
    /// How the first column goes from row to row.
    order: Option<RowOrder>,
    left_out: usize,
    /// Whether the sum is one of all rows.
    has_total: bool,
    /// Sums over the rows that are left out, by the keys of their fields.
    rest: Vec<(Cow<'static, str>, Value<'static>)>,
    /// The flag that shows the rows that are left out.
    all_with: &'static str,
    /// Where else a reader of a page finds them.
    more: Option<&'static str>,
    /// Rows are the lines of a text.
    is_listing: bool,
    /// Spaces before each line of the text.
    indent: usize,
}

impl std::fmt::Debug for Sheet<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = self.headings.iter().map(|heading| &heading.key).collect::<Vec<_>>();
        f.debug_struct("Sheet")
            .field("keys", &keys)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl<'a> Sheet<'a> {
    /// The values of `fields` in `rows`, which are those to show of `all`.
    pub(crate) fn new<R>(
        fields: Vec<Field<'a, R>>,
        rows: impl IntoIterator<Item = &'a R>,
        all: usize,
    ) -> Self {
        let rows: Vec<&'a R> = rows.into_iter().collect();
        let cell = |field: &Field<'a, R>, row: &'a R| SheetCell {
            value: (field.get)(row),
            shown: field.shown.as_ref().map(|get| get(row)),
            why: field.why.as_ref().map_or(NO_INTERVAL, |why| why(row)),
            mark: field.mark.as_ref().map(|mark| mark(row)),
            paint: field.paint.as_ref().map_or(Paint::Plain, |paint| paint(row)),
            sort: field.sort.as_ref().and_then(|sort| sort(row)),
        };
        Self {
            headings: fields.iter().map(|field| field.heading.clone()).collect(),
            rows: rows.len(),
            feet: 0,
            gap: None,
            order: Some(RowOrder::Falling),
            left_out: all.saturating_sub(rows.len()),
            row: Box::new(move |at| fields.iter().map(|field| cell(field, rows[at])).collect()),
            has_total: false,
            rest: Vec::new(),
            all_with: "--limit all",
            more: None,
            is_listing: false,
            indent: 0,
        }
    }

    /// The same with a last row for people: `total`, all rows together.
    pub(crate) fn totalled<R>(
        fields: Vec<Field<'a, R>>,
        rows: impl IntoIterator<Item = &'a R>,
        all: usize,
        total: &'a R,
    ) -> Self {
        let sheet = Self::new(fields, rows.into_iter().chain([total]), all + 1);
        Self { has_total: true, ..sheet }.with_feet(1)
    }

    /// Sums over the rows that are left out, which people see in a last row.
    pub(crate) fn with_rest(mut self, rest: Vec<(Cow<'static, str>, Value<'static>)>) -> Self {
        self.rest = rest;
        self
    }

    /// The last rows are sums: people see them below the others, programs do not.
    pub(crate) fn with_feet(mut self, feet: usize) -> Self {
        self.feet = feet;
        self.rows -= feet;
        self
    }

    /// The first column rises from row to row, as time does.
    pub(crate) fn rising(mut self) -> Self {
        self.order = Some(RowOrder::Rising);
        self
    }

    /// Rows stand by something that is not the first column as it is read, such as the size of a change.
    pub(crate) fn by_another_order(mut self) -> Self {
        self.order = None;
        self
    }

    /// Rows are left out before the one `at` this position; people see `what` there.
    pub(crate) fn with_gap(mut self, at: usize, what: Option<String>) -> Self {
        self.gap = what.map(|what| (at, what));
        self
    }

    /// Where a reader of a page finds the rows that are left out, a clause.
    pub(crate) fn more_in(mut self, more: &'static str) -> Self {
        self.more = Some(more);
        self
    }

    /// Rows are left out by these limits: without one of their number, by the smallest share.
    pub(crate) fn limited_by(mut self, limits: RowLimits) -> Self {
        if limits.rows.is_none() {
            self.all_with = "--percent-limit 0";
        }
        self
    }

    /// The flag that shows the rows that are left out.
    pub(crate) fn all_with(mut self, flag: &'static str) -> Self {
        self.all_with = flag;
        self
    }

    /// The text is below a title, as lists of facts are.
    pub(crate) fn indented(mut self) -> Self {
        self.indent = 2;
        self
    }

    /// Rows are lines of a text: a page keeps their order and their spaces.
    pub(crate) fn in_lines(mut self) -> Self {
        self.is_listing = true;
        self
    }

    /// The same, of its own texts.
    pub(crate) fn into_owned<'b>(self) -> Sheet<'b> {
        let own = |row: Vec<SheetCell<'a>>| -> Vec<SheetCell<'b>> {
            row.into_iter().map(SheetCell::into_owned).collect()
        };
        let all = 0..self.rows + self.feet;
        let own_rows: Vec<Vec<SheetCell<'b>>> = all.map(|at| own((self.row)(at))).collect();
        let row = Box::new(move |at: usize| own_rows[at].clone());
        Sheet {
            headings: self.headings,
            row,
            rows: self.rows,
            feet: self.feet,
            gap: self.gap,
            order: self.order,
            left_out: self.left_out,
            has_total: self.has_total,
            rest: self.rest,
            all_with: self.all_with,
            more: self.more,
            is_listing: self.is_listing,
            indent: self.indent,
        }
    }

    /// The rows, one after another.
    fn entries(&self) -> impl Iterator<Item = Vec<SheetCell<'a>>> + '_ {
        (0..self.rows).map(|at| (self.row)(at))
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows + self.feet == 0
    }

    /// Rows that are not shown.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// The sums below the rows, as people see them: none where a total would say the same as the only row.
    fn feet(&self) -> impl Iterator<Item = Vec<SheetCell<'a>>> + '_ {
        let all = self.rows + self.left_out;
        let feet = if self.has_total && all < 2 { 0 } else { self.feet };
        (self.rows..self.rows + feet).map(move |at| {
            let mut row = (self.row)(at);
            if !self.has_total {
                return row;
            }
            for (heading, cell) in self.headings.iter().zip(&mut row) {
                cell.mark = None;
                if heading.names_rows {
                    cell.shown = Some(Value::Text(format!("all {}", counted(all, "row")).into()));
                } else if heading.kind == FieldKind::Text && cell.value == Value::Missing {
                    cell.shown = Some(Value::Text("".into()));
                }
            }
            row
        })
    }

    /// Positions of the fields that a form of the table has.
    fn columns(&self, form: SheetForm) -> Vec<usize> {
        let has = |at: &usize| self.headings[*at].forms.contains(&form);
        let mut found: Vec<usize> = (0..self.headings.len()).filter(has).collect();
        if SheetForm::PROGRAMS.contains(&form) {
            return found;
        }
        let can_lack = |&at: &usize| self.headings[at].only_if_measured;
        let mut lacking: Vec<usize> = found.iter().copied().filter(can_lack).collect();
        let mut rows = self.entries().chain(self.feet());
        while let Some(row) = (!lacking.is_empty()).then(|| rows.next()).flatten() {
            lacking.retain(|&at| row[at].value == Value::Missing);
        }
        found.retain(|at| !lacking.contains(at));
        found
    }
}

#[cfg(test)]
mod tests;
