//! Which part of a program a piece of work is.

use std::fmt;

use crate::summary::clean;
use crate::trace::Trace;

/// Where in the program a piece of work lies, as far as the places of its forks tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Label {
    /// Nothing is known.
    Unknown,
    /// Run from this place on, without a fork of its own: a leaf.
    In(u16),
    /// From where its task begins to the first fork, which is at this place.
    Before(u16),
    /// From a fork's results on, which was at this place.
    After(u16),
    /// In a region of this name, without a fork of its own.
    Named(u16),
}

impl Label {
    /// The label of what turns out to fork at `place` next.
    #[inline]
    pub(crate) fn forks_at(self, place: u16) -> Label {
        match self {
            Label::In(_) | Label::Unknown if place != 0 => Label::Before(place),
            label => label,
        }
    }

    #[inline]
    pub(crate) fn place(self) -> u16 {
        match self {
            Label::In(place) | Label::Before(place) | Label::After(place) => place,
            Label::Unknown | Label::Named(_) => 0,
        }
    }

    /// As a reader is to see it.
    #[inline]
    pub(crate) fn text(self, trace: &Trace) -> String {
        let place = |number| short(trace.place(number).unwrap_or("an unknown place"));
        match self {
            Label::Unknown => "an unknown place".into(),
            Label::In(number) => place(number),
            Label::Before(number) => format!("before {}", place(number)),
            Label::After(number) => format!("after {}", place(number)),
            Label::Named(number) => {
                let name = usize::from(number).checked_sub(1).and_then(|n| trace.names.get(n));
                name.map_or_else(|| "a region".into(), |name| format!("region {}", clean(name)))
            }
        }
    }
}

/// The last two parts of a path: enough to find it by. As a terminal may be shown them.
#[inline]
pub(crate) fn short(place: &str) -> String {
    let place = clean(place);
    let mut parts: Vec<&str> = place.rsplit(['/', '\\']).take(2).collect();
    // `src` says nothing.
    if parts.get(1) == Some(&"src") {
        parts.truncate(1);
    }
    parts.reverse();
    parts.join("/")
}

/// What `--what-if` makes faster: a place, a region, or all work with a label.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// A region's name, a place (`sort.rs:52`, `sort.rs`), or a label as the report shows it (`before sort.rs:52`).
    pub name: String,
    /// What becomes of its work: 0.5 is half of it, 0 is none.
    pub factor: f64,
}

impl WhatIf {
    /// Reads `NAME=FACTOR`.
    ///
    /// # Errors
    ///
    /// What is wrong, in one line.
    ///
    /// ```
    /// use raddle_trace::WhatIf;
    /// assert_eq!(WhatIf::parse("sort.rs:52=0.5").unwrap().factor, 0.5);
    /// assert!(WhatIf::parse("sort").unwrap_err().contains("NAME=FACTOR"));
    /// ```
    #[inline]
    pub fn parse(text: &str) -> Result<WhatIf, String> {
        let Some((name, factor)) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty())
        else {
            return Err(format!("'{text}' is no NAME=FACTOR"));
        };
        match factor.trim().parse::<f64>() {
            Ok(factor) if factor.is_finite() && factor >= 0.0 => {
                // As there is a zero below none.
                Ok(WhatIf { name: name.trim().to_owned(), factor: factor.abs() })
            }
            _ => Err(format!("'{factor}' is no factor: a number from 0 on, as in {name}=0.5")),
        }
    }

    /// Whether work with this label is meant.
    #[inline]
    pub(crate) fn is_about(&self, label: Label, trace: &Trace) -> bool {
        let name = self.name.as_str();
        let text = label.text(trace);
        if text == name || text.strip_prefix("region ") == Some(name) {
            return true;
        }
        let Some(place) = trace.place(label.place()) else { return false };
        let ends = |place: &str| {
            place
                .strip_suffix(name)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with(['/', '\\']))
        };
        ends(place) || place.rsplit_once(':').is_some_and(|(file, _)| ends(file))
    }
}

impl fmt::Display for WhatIf {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.factor {
            factor if factor == 0.0 || (1e-6..1e9).contains(&factor) => {
                write!(f, "{}={factor}", self.name)
            }
            factor => write!(f, "{}={factor:e}", self.name),
        }
    }
}
