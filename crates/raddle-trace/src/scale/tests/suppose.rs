//! What is supposed beyond all measure.

use super::*;

/// It is told in figures that go together, or not at all.
#[test]
fn any_factor_is_heeded_or_refused() {
    let mut script = Script::new();
    script.region(0, |s| {
        s.region(1, |s| _ = s.spend(1_000_000));
        s.tree(10, 100_000);
    });
    let trace = script.trace();
    for factor in ["0", "-0", "5e-324", "1e-308", "1e-3", "1e6", "1e12", "1e14", "1e20", "1e308"] {
        for what in ["alone", "tree.rs:52", "src/tree.rs"] {
            let what = format!("{what}={factor}");
            let Ok(scale) = trace.scale(&[WhatIf::parse(&what).unwrap()]) else { continue };
            let (bound, told) = (scale.bound(), format!("{what}: {}", scale.text()));
            assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
            assert!(scale.points.iter().all(|point| point.most < 1.001 * bound), "{bound}: {told}");
        }
    }
    let all = |factor: f64| {
        let all = ["alone", "tree.rs"].map(|name| WhatIf { name: name.into(), factor });
        trace.scale(&all).map_err(|why| why.to_string())
    };
    assert_eq!(all(1.0).unwrap().work.as_micros(), 2000);
    assert!(all(0.0).unwrap_err().contains("less than a nanosecond"));
    assert!(all(1e-308).unwrap_err().contains("less than a nanosecond"));
    assert!(all(1e308).unwrap_err().contains("more than 584 years"));
    let told = ["a=-0", "a=0.25", "a=1e300", "a=2e-7"].map(|text| WhatIf::parse(text).unwrap());
    assert_eq!(told.map(|what| what.to_string()), ["a=0", "a=0.25", "a=1e300", "a=2e-7"]);
}
