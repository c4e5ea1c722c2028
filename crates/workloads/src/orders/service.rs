//! What serves a request. Functions that a profile is to show are not inlined.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use serde::Deserialize;

/// Different requests that a thread serves in turn.
const REQUESTS: usize = 16;
/// Lines of an order.
const LINES: usize = 200;

#[derive(Debug, Deserialize)]
struct OrderRequest {
    lines: Vec<OrderLine>,
}

#[derive(Debug, Deserialize)]
struct OrderLine {
    article: String,
    customer: u32,
    cents: u64,
}

/// Serves requests until `end`; at least one. Returns how many.
#[inline(never)]
pub(super) fn serve_until(end: Instant, seed: u64) -> u64 {
    let requests = requests(seed);
    let mut served = 0;
    loop {
        black_box(serve(&requests[served as usize % REQUESTS]));
        served += 1;
        if Instant::now() >= end {
            return served;
        }
    }
}

/// The request that comes back as a reply; an order that cannot be read gets an empty one.
#[inline(never)]
fn serve(request: &str) -> String {
    let Some(mut order) = parse_order(request) else { return String::new() };
    sort_by_price(&mut order);
    let sums = sum_by_customer(&order);
    render_reply(&order, &sums)
}

#[inline(never)]
fn parse_order(request: &str) -> Option<OrderRequest> {
    serde_json::from_str(request).ok()
}

#[inline(never)]
fn sort_by_price(order: &mut OrderRequest) {
    order.lines.sort_by(|a, b| b.cents.cmp(&a.cents).then_with(|| a.article.cmp(&b.article)));
}

#[inline(never)]
fn sum_by_customer(order: &OrderRequest) -> HashMap<u32, u64> {
    let mut sums = HashMap::new();
    for line in &order.lines {
        *sums.entry(line.customer).or_default() += line.cents;
    }
    sums
}

#[inline(never)]
fn render_reply(order: &OrderRequest, sums: &HashMap<u32, u64>) -> String {
    let mut reply = String::new();
    for line in &order.lines {
        let sum = sums.get(&line.customer).copied().unwrap_or_default();
        // Writing to a String does not fail.
        let _ = writeln!(
            reply,
            "{} {}.{:02} of {sum}",
            line.article,
            line.cents / 100,
            line.cents % 100
        );
    }
    reply
}

/// Orders made up from a seed, as clients would send them.
fn requests(seed: u64) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..REQUESTS).map(|_| request(&mut random)).collect()
}

fn request(random: &mut fastrand::Rng) -> String {
    let mut lines = String::new();
    for at in 0..LINES {
        let (article, customer) = (random.u32(..), random.u32(..50));
        let cents = random.u64(100..1_000_000);
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(
            lines,
            "{comma}{{\"article\":\"article {article:08x}\",\"customer\":{customer},\"cents\":{cents}}}"
        );
    }
    format!("{{\"lines\":[{lines}]}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_all_lines_by_price_with_the_sum_of_the_customer() {
        let request = r#"{"lines":[
            {"article":"a","customer":1,"cents":150},
            {"article":"b","customer":2,"cents":70000},
            {"article":"c","customer":1,"cents":5}]}"#;
        assert_eq!(serve(request), "b 700.00 of 70000\na 1.50 of 155\nc 0.05 of 155\n");
        assert_eq!(serve("{"), "");
    }

    #[test]
    fn requests_are_orders() {
        for request in requests(7) {
            assert_eq!(serve(&request).lines().count(), LINES);
        }
    }
}
