//! Against what SciPy and statsmodels make of the same data: `tests/reference/make.py` made the file.

use pmuscope_stats::{
    Estimate, LEVEL, TwoSamples, change_tests, correlation, difference_of_means, fisher_test,
    hedges_g, hodges_lehmann_shift, holm, mann_whitney, mean_interval, normal_cdf, normal_quantile,
    ratio_of_means, signed_rank_center, slope_within, t_cdf, t_quantile, welch_test, williams_test,
};
use serde_json::Value;

fn reference() -> Value {
    serde_json::from_str(include_str!("../reference/reference.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

/// Equal to nine digits, of small numbers to twelve decimals.
#[track_caller]
fn close(what: &str, got: f64, want: f64) {
    let tolerance = 1e-12 + 1e-9 * want.abs();
    assert!((got - want).abs() <= tolerance, "{what}: {got} is not {want}");
}

/// A value and the ends of its interval, `null` where there is none.
#[track_caller]
fn same(what: &str, got: Option<Estimate>, want: &Value) {
    let got = got.unwrap();
    close(what, got.value, want[0].as_f64().unwrap());
    match got.interval {
        None => assert!(want[1].is_null(), "{what}: no interval"),
        Some(interval) => {
            close(what, interval.low, want[1].as_f64().unwrap());
            close(what, interval.high, want[2].as_f64().unwrap());
        }
    }
}

#[test]
fn distributions() {
    let reference = reference();
    for row in rows(&reference["normal"]) {
        close("normal", normal_cdf(row[0]), row[1]);
        if row[2].is_finite() {
            close("normal quantile", normal_quantile(0.5 + row[0] / 300.0), row[2]);
        }
    }
    for row in rows(&reference["t"]) {
        close("t", t_cdf(row[0], row[1]), row[2]);
        close("t quantile", t_quantile(0.5 + row[0].abs() / 30.0, row[1]), row[3]);
    }
}

#[test]
fn intervals_tests_and_effects_of_two_samples() {
    let reference = reference();
    let samples = reference["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 5);
    for sample in samples {
        let (a, b) = (numbers(&sample["a"]), numbers(&sample["b"]));
        same("mean", mean_interval(&a, LEVEL), &sample["mean_interval"]);
        same("difference", difference_of_means(&a, &b, LEVEL), &sample["difference"]);
        same("ratio", ratio_of_means(&a, &b, LEVEL), &sample["ratio_of_means"]);
        close("Welch", welch_test(&a, &b).unwrap(), sample["welch_p"].as_f64().unwrap());
        let rank = mann_whitney(&a, &b).unwrap();
        close("Mann-Whitney", rank, sample["mann_whitney_p"].as_f64().unwrap());
        let g = hedges_g(&a, &b, LEVEL).unwrap();
        close("Hedges' g", g.value, sample["hedges_g"].as_f64().unwrap());
        if a.len() + b.len() <= 21 {
            same("shift", hodges_lehmann_shift(&a, &b, LEVEL), &sample["hodges_lehmann"]);
        }
        if let Some(r) = sample["pearson"].as_f64() {
            let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
            close("Pearson", correlation(&pairs).unwrap(), r);
        }
    }
}

#[test]
fn ranks_with_ties_and_signs() {
    let reference = reference();
    let ties = &reference["ties"];
    let p = mann_whitney(&numbers(&ties["a"]), &numbers(&ties["b"])).unwrap();
    close("ties", p, ties["p"].as_f64().unwrap());
    let signs = &reference["signed_rank"];
    let center = signed_rank_center(&numbers(&signs["differences"]), LEVEL);
    same("signed rank", center, &signs["center"]);
}

#[test]
fn corrections_for_many_tests() {
    let reference = reference();
    let holms = &reference["holm"];
    let given: Vec<Option<f64>> = numbers(&holms["p"]).into_iter().map(Some).collect();
    let want = numbers(&holms["adjusted"]);
    for (got, want) in holm(&given).into_iter().zip(want) {
        close("Holm", got.unwrap(), want);
    }
}

#[test]
fn slopes_and_correlations() {
    let reference = reference();
    let slope = &reference["slope"];
    let split = |values: Vec<f64>| {
        let (a, b) = values.split_at(slope["first"].as_u64().unwrap() as usize);
        let number = |side: &[f64]| side.iter().copied().enumerate().collect();
        TwoSamples { a: number(a), b: number(b), resolution: 0.0 }
    };
    let (x, y) = (split(numbers(&slope["x"])), split(numbers(&slope["y"])));
    same("slope", slope_within(&y, &x, LEVEL), &slope["value"]);
    for row in rows(&reference["williams"]) {
        let p = williams_test(row[0], row[1], row[2], row[3] as usize).unwrap();
        close("Williams", p, row[4]);
    }
    for row in rows(&reference["fisher"]) {
        let p = fisher_test((row[0], row[1] as usize), (row[2], row[3] as usize)).unwrap();
        close("Fisher", p, row[4]);
    }
}

#[test]
fn spreads_moderated_by_all_figures() {
    let reference = reference();
    let moderated = &reference["moderated"];
    let figures: Vec<TwoSamples> = rows(&moderated["a"])
        .into_iter()
        .zip(rows(&moderated["b"]))
        .map(|(a, b)| {
            let number = |side: Vec<f64>| side.into_iter().enumerate().collect();
            TwoSamples { a: number(a), b: number(b), resolution: 0.0 }
        })
        .collect();
    let (own, all) = (numbers(&moderated["own"]), numbers(&moderated["p"]));
    assert_eq!(figures.len(), 60);
    for (at, tested) in change_tests(&figures).into_iter().enumerate() {
        let tested = tested.unwrap();
        close("own", tested.own, own[at]);
        // The fit's root is found to 1e-9 or so on both sides.
        let p = tested.moderated.unwrap();
        assert!((p - all[at]).abs() <= 1e-7, "moderated: {p} is not {}", all[at]);
        close("both", tested.p, (2.0 * tested.own.min(p)).min(1.0));
    }
}
