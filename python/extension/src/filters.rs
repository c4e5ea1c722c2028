//! Filters as Python gives them: the flags of the command line, with their syntax; lists where these have commas.

use pmuscope_tables::{CpuSet, FilterRequest, Times};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyString};

use crate::errors::argument;

/// Names of all filters.
const NAMES: [&str; 10] =
    ["comm", "pid", "tid", "cpu", "node", "time", "event", "dso", "symbol", "focus"];

/// The filters of a call, without its other arguments; `None` values are no filters.
pub(crate) fn request(filters: Option<&Bound<'_, PyDict>>) -> PyResult<FilterRequest> {
    let mut request = FilterRequest::default();
    let Some(filters) = filters else { return Ok(request) };
    for (name, value) in filters {
        let name: String = name.extract()?;
        if !NAMES.contains(&&*name) {
            let known = NAMES.join(", ");
            return Err(PyTypeError::new_err(format!("no filter {name:?}; there are {known}")));
        }
        if value.is_none() {
            continue;
        }
        match &*name {
            "comm" => request.comms = split(texts(&name, &value)?),
            "pid" => request.pids = numbers(&name, &value)?,
            "tid" => request.tids = numbers(&name, &value)?,
            "cpu" => request.cpus = Some(set(&name, &value)?),
            "node" => request.nodes = Some(set(&name, &value)?),
            "time" => request.times = Some(times(&value)?),
            "event" => request.events = texts(&name, &value)?.1,
            "dso" => request.dsos = split(texts(&name, &value)?),
            "symbol" => request.symbols = texts(&name, &value)?.1,
            _ => request.focus = texts(&name, &value)?.1,
        }
    }
    Ok(request)
}

fn refused(name: &str, what: &str, value: &Bound<'_, PyAny>, hint: &str) -> PyErr {
    let shown = value.repr().map_or_else(|_| "that".to_owned(), |shown| shown.to_string());
    PyTypeError::new_err(format!("{name} is {what}, and not {shown}. Try: {hint}"))
}

/// Texts, and whether it was a list of them.
fn texts(name: &str, value: &Bound<'_, PyAny>) -> PyResult<(bool, Vec<String>)> {
    let what = "a text or a list of texts";
    let hint = format!("{name}=\"main\"");
    if let Ok(text) = value.cast::<PyString>() {
        return Ok((false, vec![text.extract()?]));
    }
    let text = |item: Bound<'_, PyAny>| item.cast::<PyString>()?.extract::<String>();
    let list: PyResult<Vec<String>> =
        value.try_iter().and_then(|items| items.map(|item| text(item?)).collect());
    list.map(|list| (true, list)).map_err(|_| refused(name, what, value, &hint))
}

/// A text has commas between names, as on the command line.
fn split((is_list, texts): (bool, Vec<String>)) -> Vec<String> {
    if is_list {
        return texts;
    }
    texts.iter().flat_map(|text| text.split(',')).map(str::to_owned).collect()
}

fn number(value: &Bound<'_, PyAny>) -> Option<i32> {
    let is_number = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    // Numbers of numpy have `__index__`.
    let is_index = !value.is_instance_of::<PyBool>() && value.hasattr("__index__").unwrap_or(false);
    (is_number || is_index).then(|| value.extract().ok()).flatten().filter(|&number| number >= 0)
}

fn numbers(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<i32>> {
    if let Some(number) = number(value) {
        return Ok(vec![number]);
    }
    let wrong = || refused(name, "a number or a list of numbers", value, &format!("{name}=1234"));
    if value.is_instance_of::<PyString>() {
        return Err(wrong());
    }
    let items = value.try_iter().map_err(|_| wrong())?;
    items.map(|item| number(&item?).ok_or_else(wrong)).collect()
}

fn set(name: &str, value: &Bound<'_, PyAny>) -> PyResult<CpuSet> {
    let hint = format!("{name}=\"0-3,8\"");
    let text = match value.cast::<PyString>() {
        Ok(text) => text.extract::<String>()?,
        Err(_) => {
            let what = "a number, a list of numbers, or a text";
            let list = numbers(name, value).map_err(|_| refused(name, what, value, &hint))?;
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            list.join(",")
        }
    };
    CpuSet::parse(&text)
        .map_err(|error| argument(value.py(), &format!("{name} {text:?}: {error}. Try: {hint}")))
}

fn times(value: &Bound<'_, PyAny>) -> PyResult<Times> {
    let Ok(text) = value.cast::<PyString>() else {
        let what = "a text of times in seconds or percent";
        return Err(refused("time", what, value, "time=\"+1,+2\" or time=\"10%-40%\""));
    };
    let text: String = text.extract()?;
    text.parse::<Times>().map_err(|why| argument(value.py(), &format!("time {text:?}: {why}")))
}
