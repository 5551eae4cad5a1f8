//! One page that shows a trace, with nothing else needed.
//!
//! The page's program (`page.js`) draws lanes on a canvas. What it draws is computed here and embedded as
//! base64 of little-endian arrays: a million events are some ten megabytes.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use crate::chrome::quoted;
use crate::edges::Edge;
use crate::names::Names;
use crate::out::{Out, kept_text, written};
use crate::queues::queues;
use crate::scale::Stretches;
use crate::states::{Follower, State};
use crate::summary::{counted, time};
use crate::trace::Trace;

const PAGE: &str = include_str!("html/page.html");
const SCRIPT: &str = include_str!("html/page.js");
/// How many names the table of times has, at most.
const NAMED: usize = 20;

impl Trace {
    /// The trace as one self-contained page. First it says what bounds the run, and what more processors would give; then how
    /// many workers were busy over time, and a lane for each with its tasks by name, steals and wakes as arrows, the lengths
    /// of queues, the phases of regions: to be zoomed, searched and pointed at.
    #[inline]
    pub fn html(&self) -> String {
        // Memory that is not written to costs nothing.
        kept_text(12 * self.len() + PAGE.len() + SCRIPT.len(), |out| self.page_to(out))
    }

    /// [`Trace::html`], written in pieces as it is made.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    #[inline]
    pub fn write_html(&self, to: impl io::Write) -> io::Result<()> {
        written(to, |out| self.page_to(out))
    }

    #[inline]
    fn page_to(&self, page: &mut Out<'_>) {
        let (before, after) = PAGE.split_once("/*SCRIPT*/").unwrap_or((PAGE, ""));
        page.push_str(before);
        page.push_str("const DATA = ");
        self.page_data(page);
        page.push_str(";\n");
        page.push_str(SCRIPT);
        page.push_str(after);
    }

    #[inline]
    fn page_data(&self, out: &mut Out<'_>) {
        let span = self.end.nanos.saturating_sub(self.start.nanos);
        // Whether that fails is found at the end, here and below.
        let _ = write!(
            out,
            "{{\"span\":{span},\"events\":{},\"dropped\":{},\"width\":{},\"states\":[",
            self.len(),
            self.drops(),
            self.width()
        );
        join(out, State::ALL, |out, state| {
            let _ = write!(out, "[\"{}\",\"{}\"]", state.name(), state.colour());
        });
        out.push_str("],\"summary\":");
        out.push_str(&quoted(&self.summary()));
        let names = Names::of(self);
        out.push_str(",\"names\":[");
        join(out, &names.texts, |out, text| out.push_str(&quoted(text)));
        out.push_str("],\"named\":[");
        join(out, self.time_by(&names).into_iter().take(NAMED), |out, named| {
            let (name, own) = (quoted(&named.name), named.own.as_nanos());
            let _ = write!(out, "[{name},{own},{}]", named.count);
        });
        out.push(']');
        let stretches = self.first_screen(out);
        out.push_str(",\"regions\":[");
        join(out, self.regions(), |out, region| {
            let name = region.name.clone().unwrap_or_else(|| format!("region {}", region.task));
            let parts = region.parts().map(|(_, time)| time.as_nanos().to_string()).join(",");
            let _ = write!(out, "[{},{},{parts}]", quoted(&name), region.start.as_nanos());
        });
        out.push_str("],\"lanes\":[");
        if out.has_failed() {
            return;
        }
        let queues = queues(self);
        // Lanes without events are left out; edges name the others by their place among what is left.
        let mut place = vec![None; self.lanes.len()];
        let shown: Vec<usize> =
            (0..self.lanes.len()).filter(|&i| self.lanes[i].does_something()).collect();
        join(out, shown.iter().copied().enumerate(), |out, (at, number)| {
            place[number] = Some(at as u32);
            self.lane_data(out, number, &queues[number], &names, &stretches[number]);
        });
        out.push_str("],\"edges\":");
        if out.has_failed() {
            return;
        }
        self.edge_data(out, &place);
        out.push('}');
    }

    /// What the page says first: what bounds the run, and what more processors would give. Where the span was on each lane.
    #[inline]
    fn first_screen(&self, out: &mut Out<'_>) -> Stretches {
        let span = Duration::from_nanos(self.end.nanos.saturating_sub(self.start.nanos));
        let facts = format!(
            "{}, {} in {}",
            counted(self.len(), "event"),
            counted(self.width(), "thread"),
            time(span)
        );
        let facts = match self.fact("damage") {
            Some(damage) => format!("{facts}, of a file that is damaged: {damage}"),
            None => facts,
        };
        let (scale, stretches) = match self.scale_with_span() {
            Ok(both) => both,
            Err(why) => {
                let advice = self.advice();
                let first = advice.first().map(|advice| advice.to_string() + ".");
                let mut verdict = first.unwrap_or_else(|| "Nothing stands out.".into());
                if let Some(initial) = verdict.get_mut(..1) {
                    initial.make_ascii_uppercase();
                }
                let facts =
                    format!("{facts}. What more processors would give cannot be told: {why}.");
                let (verdict, facts) = (quoted(&verdict), quoted(&facts));
                let _ = write!(
                    out,
                    ",\"verdict\":{verdict},\"facts\":{facts},\"scale\":null,\"on_span\":false"
                );
                return vec![Vec::new(); self.lanes.len()];
            }
        };
        let verdict = quoted(&(scale.verdict() + "."));
        let facts = [facts].into_iter().chain(scale.notes.iter().cloned());
        let facts = quoted(&facts.collect::<Vec<_>>().join(". "));
        let _ = write!(out, ",\"verdict\":{verdict},\"facts\":{facts},\"on_span\":true");
        out.push_str(",\"scale\":{\"points\":[");
        join(out, &scale.points, |out, p| {
            let (n, s, least, most) = (p.processors, p.speedup, p.least, p.most);
            let _ =
                write!(out, "{{\"n\":{n},\"s\":{s:.3},\"least\":{least:.3},\"most\":{most:.3}}}");
        });
        out.push_str("],\"measured\":[");
        join(out, &scale.measured, |out, m| {
            let _ = write!(out, "[{},{:.3}]", m.processors, m.speedup);
        });
        out.push_str("],\"places\":[");
        let span = scale.span.as_secs_f64().max(1e-12);
        join(out, &scale.places, |out, place| {
            let (on, work) = (place.on_span.as_nanos(), place.work.as_nanos());
            let (name, part) = (quoted(&place.name), place.on_span.as_secs_f64() / span);
            let _ = write!(out, "[{name},{on},{part:.4},{work},{:.3}]", place.without);
        });
        out.push_str("]}");
        stretches
    }

    #[inline]
    fn lane_data(
        &self,
        out: &mut Out<'_>,
        number: usize,
        queue: &[(u64, u16)],
        names: &Names,
        stretches: &[(u64, u64)],
    ) {
        let lane = &self.lanes[number];
        let (mut times, mut states, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        let (mut follower, mut named) = (Follower::new(), names.lane(number));
        let (mut last, mut shown) = (0, (State::Absent, 0, 0));
        for event in &lane.events {
            follower.step(event);
            named.step(event, follower.depth());
            let now = (follower.state(), named.name(), follower.depth());
            if now == shown {
                continue;
            }
            shown = now;
            let at = self.offset(event.tsc).max(last);
            let step = at - last;
            last = at;
            if step >= u64::from(u32::MAX) {
                // After four seconds without anything: that a long step follows, in two halves.
                times.extend(u32::MAX.to_le_bytes());
                times.extend(((step >> 32) as u32).to_le_bytes());
            }
            times.extend((step as u32).to_le_bytes());
            states.push(now.0 as u8);
            tasks.extend(now.1.to_le_bytes());
        }
        let at = |&(tsc, _): &(u64, u16)| (self.offset(tsc) as f64).to_le_bytes();
        let queue_times: Vec<u8> = queue.iter().flat_map(at).collect();
        let lengths: Vec<u8> = queue.iter().flat_map(|point| point.1.to_le_bytes()).collect();
        let ends = stretches.iter().flat_map(|&(from, to)| [from, to]);
        let on_span = ends.flat_map(|tsc| (self.offset(tsc) as f64).to_le_bytes()).collect();
        let _ = write!(out, "{{\"name\":{},\"dropped\":{}", quoted(&lane.name), lane.dropped);
        for (name, bytes) in [
            ("t", times),
            ("s", states),
            ("p", tasks),
            ("c", on_span),
            ("qt", queue_times),
            ("q", lengths),
        ] {
            let _ = write!(out, ",\"{name}\":\"");
            base64(out, &bytes);
            out.push('"');
        }
        out.push('}');
    }

    #[inline]
    fn edge_data(&self, out: &mut Out<'_>, place: &[Option<u32>]) {
        let mut edges = self.edges();
        edges.retain(|edge| place[edge.from.0].is_some() && place[edge.to.0].is_some());
        edges.sort_by_key(|edge| edge.from.1);
        let lane = |edge: &Edge| {
            let ends = [edge.from.0, edge.to.0].map(|lane| place[lane].unwrap_or(0).to_le_bytes());
            ends.into_iter().flatten()
        };
        let time = |edge: &Edge| {
            let ends = [edge.from.1, edge.to.1].map(|tsc| self.offset(tsc) as f64);
            ends.map(f64::to_le_bytes).into_iter().flatten()
        };
        out.push_str("{\"kind\":\"");
        base64(out, &edges.iter().map(|edge| edge.kind as u8).collect::<Vec<u8>>());
        out.push_str("\",\"lane\":\"");
        base64(out, &edges.iter().flat_map(lane).collect::<Vec<u8>>());
        out.push_str("\",\"t\":\"");
        base64(out, &edges.iter().flat_map(time).collect::<Vec<u8>>());
        out.push_str("\"}");
    }
}

#[inline]
fn join<T>(
    out: &mut Out<'_>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Out<'_>, T),
) {
    for (number, item) in items.into_iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        write(out, item);
    }
}

/// Base64 as in RFC 4648, section 4.
#[inline]
fn base64(out: &mut Out<'_>, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let [a, b, c] = std::array::from_fn(|i| u32::from(group.get(i).copied().unwrap_or(0)));
        let word = a << 16 | b << 8 | c;
        for digit in 0..4 {
            let value = (word >> (18 - 6 * digit)) & 63;
            out.push(if digit > group.len() { '=' } else { DIGITS[value as usize].into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind};
    use crate::trace::{ClockPair, Lane};

    fn in_base64(bytes: &[u8]) -> String {
        kept_text(0, |out| base64(out, bytes))
    }

    #[test]
    fn base64_of_the_rfc() {
        let encoded =
            ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|s| in_base64(s.as_bytes()));
        let expected = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        assert_eq!(encoded, expected);
        assert_eq!(in_base64(&[0xff, 0xef]), "/+8=");
    }

    fn data_of(trace: &Trace) -> serde_json::Value {
        serde_json::from_str(&kept_text(0, |out| trace.page_data(out))).unwrap()
    }

    fn from_base64(text: &str) -> Vec<u8> {
        let digit = |digit: u8| match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let groups = text.trim_end_matches('=').as_bytes().chunks(4);
        let bytes = groups.flat_map(|group| {
            let word = group.iter().fold(0, |word, &d| word << 6 | u32::from(digit(d)));
            let bits = 6 * group.len();
            (0..bits / 8).map(move |i| (word >> (bits - 8 * (i + 1))) as u8).collect::<Vec<_>>()
        });
        bytes.collect()
    }

    /// As the page reads them.
    #[test]
    fn times_of_hours_come_out_to_the_nanosecond() {
        let times =
            [7, 4_294_967_301, 8_589_934_596, 8_589_934_600, 7_208_589_934_600, 7_208_589_934_611];
        let end = times[5];
        let mut trace =
            Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: end, nanos: end });
        let kinds = [EventKind::Park, EventKind::Unparked].into_iter().cycle();
        let events = times.iter().zip(kinds).map(|(&tsc, kind)| Event::new(tsc, kind, 0));
        trace.lanes.push(Lane::new("a", events.collect()));
        let data = data_of(&trace);
        let lane = &data["lanes"][0];
        let bytes = from_base64(lane["t"].as_str().unwrap());
        let mut steps = bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        let mut seen = Vec::new();
        while let Some(step) = steps.next() {
            let long = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
            let step = match step {
                u32::MAX => long(steps.next().unwrap(), steps.next().unwrap()),
                step => step.into(),
            };
            seen.push(seen.last().unwrap_or(&0) + step);
        }
        assert_eq!(seen, times);
        assert_eq!(from_base64(lane["s"].as_str().unwrap()).len(), times.len());
    }

    #[test]
    fn the_page_stands_alone_and_its_data_is_json() {
        let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 9, nanos: 9 });
        trace.names.push("</script><b>".into());
        let submit = Event { aux: 1, ..Event::new(5, EventKind::Submit, 3) };
        trace.lanes.push(Lane::new("<worker>", vec![submit]));
        trace.lanes.push(Lane::new("nobody", Vec::new()));
        let page = trace.html();
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains(" src="));
        assert_eq!(page.matches("</script>").count(), 1);
        let data = data_of(&trace);
        assert_eq!(data["lanes"].as_array().unwrap().len(), 1);
        assert_eq!(data["regions"][0][0], "</script><b>");
    }
    /// What is not drawn is not promised.
    #[test]
    fn a_span_is_marked_if_it_is_known() {
        let pair = |nanos| ClockPair { tsc: nanos, nanos };
        let mut trace = Trace::new(pair(0), pair(900));
        let events = [(0, EventKind::Submit), (0, EventKind::Exec), (900, EventKind::Executed)];
        let events: Vec<_> = events.into_iter().map(|(t, kind)| Event::new(t, kind, 1)).collect();
        trace.lanes.push(Lane::new("a", events));
        let data = data_of(&trace);
        assert_eq!(data["on_span"], true);
        assert!(data["scale"].is_object());
        let bytes = from_base64(data["lanes"][0]["c"].as_str().unwrap());
        assert_eq!(bytes.len(), 16);
        trace.lanes.clear();
        let data = data_of(&trace);
        assert_eq!((&data["on_span"], data["scale"].is_null()), (&false.into(), true));
    }
}
