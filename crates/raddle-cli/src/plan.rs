//! `raddle plan`: what each plan would do here.

use std::time::{Duration, Instant};

use raddle::remote::{Env, Plan, build_id};
use serde_json::json;

use crate::args::{Common, PlanArgs};
use crate::error::Error;
use crate::report::{count, duration, print, print_json};

/// How long an engine may take to answer.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn run(args: &PlanArgs, common: &Common) -> Result<(), Error> {
    common.refuse_plan("name it behind `raddle plan`")?;
    let plans = match args.plans.as_slice() {
        [] => ["sequential", "threads", "processes", "ray:auto"]
            .iter()
            .map(|plan| plan.parse().map_err(|error| Error::usage(format!("{error}"))))
            .collect::<Result<Vec<Plan>, Error>>()?,
        plans => plans.to_vec(),
    };
    let build = build_id().unwrap_or_else(|| "none".to_owned());
    let mut text = format!("build id {build}\n");
    let mut found = Vec::new();
    for plan in plans {
        let name = plan.to_string();
        match ask(plan) {
            Ok((workers, seconds)) => {
                let first = duration(seconds);
                text += &format!(
                    "  {name:<16} {}, first answer after {first}\n",
                    count(workers, "worker")
                );
                found.push(json!({ "plan": name, "workers": workers, "first_answer": seconds }));
            }
            Err(error) => {
                text += &format!("  {name:<16} cannot be had: {error}\n");
                found.push(json!({ "plan": name, "error": error }));
            }
        }
    }
    match common.json {
        true => {
            print_json(&json!({ "schema": "raddle-plan-1", "build_id": build, "plans": found }))
        }
        false => print(&text),
    }
}

/// How many workers there would be, and how long it takes until the first answers.
fn ask(plan: Plan) -> Result<(usize, f64), String> {
    let env = Env::new(plan.start_timeout(LIMIT)).map_err(|error| error.to_string())?;
    let start = Instant::now();
    env.spawn(|n: u32| n + 1, 1).wait().map_err(|failure| failure.to_string())?;
    Ok((env.workers(), start.elapsed().as_secs_f64()))
}
