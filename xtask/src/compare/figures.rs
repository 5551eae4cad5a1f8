//! The figures, as `raddle-bench all --json` has printed them.

use serde_json::Value;

/// One row of one table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) table: String,
    pub(crate) section: String,
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) p99: Option<f64>,
    /// The median of each round.
    pub(crate) rounds: Vec<f64>,
    pub(crate) bytes: Option<f64>,
    pub(crate) note: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) machine: Value,
    pub(crate) rows: Vec<Row>,
    /// How many processors other programs used during each table.
    pub(crate) others: Vec<(String, f64)>,
    /// The rows of the same program linked in other orders.
    pub(crate) placements: Vec<Vec<Row>>,
    pub(crate) budgets: Vec<Budget>,
}

/// What the project asks of itself, and what came of it.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) table: String,
    pub(crate) what: String,
    pub(crate) min: Option<f64>,
    pub(crate) median: Option<f64>,
    /// `at_most` or `at_least`, and the figure.
    pub(crate) limit: (String, f64),
    pub(crate) met: bool,
}

impl Figures {
    pub(crate) fn read(text: &str) -> Result<Figures, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if value["smoke"] != false {
            return Err("the figures are those of a smoke run".into());
        }
        let tables = value["tables"].as_array().ok_or("the figures have no tables")?;
        let others = tables.iter().filter_map(|table| {
            let name = table["name"].as_str()?.to_owned();
            Some((name, table["processors_used_by_others"].as_f64()?))
        });
        let placements = value["placements"].as_array().into_iter().flatten();
        Ok(Figures {
            machine: value["machine"].clone(),
            rows: rows(&value)?,
            others: others.collect(),
            placements: placements.map(rows).collect::<Result<_, _>>()?,
            budgets: tables.iter().flat_map(budgets).collect(),
        })
    }

    pub(crate) fn row(&self, table: &str, section: &str, name: &str) -> Result<&Row, String> {
        find(&self.rows, table, section, name)
            .ok_or_else(|| format!("the figures have no row {table} / {section} / {name}"))
    }

    /// What and how it was measured, in one paragraph.
    pub(crate) fn machine(&self) -> String {
        let text = |name: &str| self.machine[name].as_str().unwrap_or("unknown").to_owned();
        let number = |name: &str| self.machine[name].as_f64().map(|number| format!("{number:.0}"));
        let numbers = self.machine["cpu_numbers"].as_array().map_or(String::new(), |numbers| {
            format!(" (family {}, model {}, stepping {})", numbers[0], numbers[1], numbers[2])
        });
        format!(
            "{}{numbers}, {} cores at {} MHz, {}, {}, {}; commit {}, {}",
            text("cpu"),
            number("cores").unwrap_or_else(|| "?".into()),
            number("mhz").unwrap_or_else(|| "?".into()),
            text("os"),
            text("rustc").split(" (").next().unwrap_or_default(),
            text("build"),
            text("commit"),
            text("date"),
        )
    }

    /// Shorter, for the corner of a picture.
    pub(crate) fn short(&self) -> String {
        let text = |name: &str| self.machine[name].as_str().unwrap_or("unknown").to_owned();
        format!("{}, commit {}, {}", text("cpu"), text("commit"), text("date"))
    }

    /// What a reader must know of a machine that was not quiet; none if it was.
    pub(crate) fn warning(&self) -> Option<String> {
        let most = self.others.iter().map(|(_, others)| *others).fold(0.0, f64::max);
        let busy = self.others.iter().filter(|(_, others)| *others > 0.1).count();
        (busy > 0).then(|| {
            format!(
                "**The machine was busy**: during {busy} of {} tables other programs used processors, up to {most:.1}. \
                 These figures show that the mechanism works and little else; believe ratios of minima at most.",
                self.others.len()
            )
        })
    }

    /// Names and versions of the peers.
    pub(crate) fn peers(&self) -> String {
        let peers = self.machine["peers"].as_object();
        let each = peers.into_iter().flatten();
        let each =
            each.map(|(name, version)| format!("{name} {}", version.as_str().unwrap_or("?")));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Those of a table that have been judged.
fn budgets(table: &Value) -> Vec<Budget> {
    let read = |budget: &Value| {
        let (kind, most) = budget["limit"].as_object()?.iter().next()?;
        let met = match budget["verdict"].as_str()? {
            "met" => true,
            "missed" => false,
            _ => return None,
        };
        Some(Budget {
            table: table["name"].as_str()?.to_owned(),
            what: budget["what"].as_str()?.to_owned(),
            min: budget["min"].as_f64(),
            median: budget["median"].as_f64(),
            limit: (kind.clone(), most.as_f64()?),
            met,
        })
    };
    table["budgets"].as_array().into_iter().flatten().filter_map(read).collect()
}

pub(crate) fn find<'a>(rows: &'a [Row], table: &str, section: &str, name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.table == table && row.section == section && row.name == name)
}

fn rows(value: &Value) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for table in value["tables"].as_array().ok_or("no tables")? {
        for row in table["rows"].as_array().ok_or("a table has no rows")? {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
            let rounds = row["rounds"].as_array().into_iter().flatten();
            rows.push(Row {
                table: table["name"].as_str().unwrap_or_default().to_owned(),
                section: text("section"),
                name: text("name"),
                unit: text("unit"),
                min: number("min"),
                median: number("median"),
                p99: row["p99"].as_f64(),
                rounds: rounds.filter_map(Value::as_f64).collect(),
                bytes: row["memory"]["bytes"].as_f64(),
                note: row["note"].as_str().map(str::to_owned),
            });
        }
    }
    Ok(rows)
}

/// JSON with a row on a line and five digits to a figure: what a diff can show and a person can read.
pub(crate) fn pretty(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text.push('\n');
    text
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

fn write(value: &Value, indent: usize, text: &mut String) {
    if depth(value) <= 2 {
        *text += &rounded(value).to_string();
        return;
    }
    let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    let parts: Vec<(String, &Value)> = match value {
        Value::Array(items) => items.iter().map(|item| (String::new(), item)).collect(),
        Value::Object(fields) => {
            let named = |(name, field)| (format!("{}: ", Value::from(String::as_str(name))), field);
            fields.iter().map(named).collect()
        }
        _ => Vec::new(),
    };
    text.push(open);
    for (at, (name, part)) in parts.into_iter().enumerate() {
        *text += if at == 0 { "\n" } else { ",\n" };
        *text += &" ".repeat(indent + 1);
        *text += &name;
        write(part, indent + 1, text);
    }
    *text += &format!("\n{}{close}", " ".repeat(indent));
}

fn rounded(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(rounded).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), rounded(field))).collect()
        }
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            format!("{number:.4e}").parse::<f64>().map_or(Value::Null, Value::from)
        }
        other => other.clone(),
    }
}
