//! One page that shows a trace, with nothing else needed.
//!
//! The page's program (`page.js`) draws lanes on a canvas. What it draws is computed here and embedded as
//! base64 of little-endian arrays: a million events are some ten megabytes.

use std::fmt::Write as _;

use crate::chrome::quoted;
use crate::queues::queues;
use crate::states::State;
use crate::trace::Trace;

const PAGE: &str = include_str!("html/page.html");
const SCRIPT: &str = include_str!("html/page.js");
const NO_TASK: u32 = u32::MAX;

impl Trace {
    /// The trace as one self-contained page: a lane for each worker with its states, steals and wakes as
    /// arrows, the lengths of queues, the phases of regions; to be zoomed and pointed at.
    pub fn html(&self) -> String {
        let data = self.page_data();
        let (before, after) = PAGE.split_once("/*SCRIPT*/").unwrap_or((PAGE, ""));
        let mut page = String::with_capacity(data.len() + PAGE.len() + SCRIPT.len() + 64);
        page.push_str(before);
        page.push_str("const DATA = ");
        page.push_str(&data);
        page.push_str(";\n");
        page.push_str(SCRIPT);
        page.push_str(after);
        page
    }

    fn page_data(&self) -> String {
        let mut out = String::new();
        let span = self.end.nanos.saturating_sub(self.start.nanos);
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            out,
            "{{\"span\":{span},\"events\":{},\"dropped\":{},\"width\":{},\"states\":[",
            self.len(),
            self.drops(),
            self.width()
        );
        join(&mut out, State::ALL, |out, state| {
            let _ = write!(out, "[\"{}\",\"{}\"]", state.name(), state.colour());
        });
        out.push_str("],\"summary\":");
        out.push_str(&quoted(&self.summary()));
        out.push_str(",\"regions\":[");
        join(&mut out, self.phases(), |out, region| {
            let name = region.name.clone().unwrap_or_else(|| format!("region {}", region.task));
            let parts = region.parts().map(|(_, time)| time.as_nanos().to_string()).join(",");
            let _ = write!(out, "[{},{},{parts}]", quoted(&name), region.start.as_nanos());
        });
        out.push_str("],\"lanes\":[");
        let queues = queues(self);
        // Lanes without events are left out; edges name the others by their place among what is left.
        let mut place = vec![None; self.lanes.len()];
        let shown: Vec<usize> =
            (0..self.lanes.len()).filter(|&i| !self.lanes[i].events.is_empty()).collect();
        join(&mut out, shown.iter().copied().enumerate(), |out, (at, number)| {
            place[number] = Some(at as u32);
            self.lane_data(out, number, &queues[number]);
        });
        out.push_str("],\"edges\":");
        self.edge_data(&mut out, &place);
        out.push('}');
        out
    }

    fn lane_data(&self, out: &mut String, number: usize, queue: &[(u64, u16)]) {
        let lane = &self.lanes[number];
        let (mut times, mut states, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        let mut last = 0;
        for segment in lane.segments() {
            last = self.offset(segment.from).max(last);
            times.extend((last as f64).to_le_bytes());
            states.push(segment.state as u8);
            tasks.extend(segment.task.unwrap_or(NO_TASK).to_le_bytes());
        }
        let at = |&(tsc, _): &(u64, u16)| (self.offset(tsc) as f64).to_le_bytes();
        let queue_times: Vec<u8> = queue.iter().flat_map(at).collect();
        let lengths: Vec<u8> = queue.iter().flat_map(|point| point.1.to_le_bytes()).collect();
        let _ = write!(out, "{{\"name\":{},\"dropped\":{}", quoted(&lane.name), lane.dropped);
        for (name, bytes) in
            [("t", times), ("s", states), ("k", tasks), ("qt", queue_times), ("q", lengths)]
        {
            let _ = write!(out, ",\"{name}\":\"{}\"", base64(&bytes));
        }
        out.push('}');
    }

    fn edge_data(&self, out: &mut String, place: &[Option<u32>]) {
        let mut edges = self.edges();
        edges.sort_by_key(|edge| edge.from.1);
        let (mut kinds, mut lanes, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for edge in edges {
            let (Some(from), Some(to)) = (place[edge.from.0], place[edge.to.0]) else { continue };
            kinds.push(edge.kind as u8);
            lanes.extend(from.to_le_bytes().into_iter().chain(to.to_le_bytes()));
            for tsc in [edge.from.1, edge.to.1] {
                times.extend((self.offset(tsc) as f64).to_le_bytes());
            }
        }
        let _ = write!(
            out,
            "{{\"kind\":\"{}\",\"lane\":\"{}\",\"t\":\"{}\"}}",
            base64(&kinds),
            base64(&lanes),
            base64(&times)
        );
    }
}

fn join<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    for (number, item) in items.into_iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        write(out, item);
    }
}

/// Base64 as in RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let [a, b, c] = std::array::from_fn(|i| u32::from(group.get(i).copied().unwrap_or(0)));
        let word = a << 16 | b << 8 | c;
        for digit in 0..4 {
            let value = (word >> (18 - 6 * digit)) & 63;
            text.push(if digit > group.len() { '=' } else { DIGITS[value as usize].into() });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind};
    use crate::trace::{ClockPair, Lane};

    #[test]
    fn base64_of_the_rfc() {
        let encoded =
            ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|s| base64(s.as_bytes()));
        let expected = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        assert_eq!(encoded, expected);
        assert_eq!(base64(&[0xff, 0xef]), "/+8=");
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
        let data: serde_json::Value = serde_json::from_str(&trace.page_data()).unwrap();
        assert_eq!(data["lanes"].as_array().unwrap().len(), 1);
        assert_eq!(data["regions"][0][0], "</script><b>");
    }
}
