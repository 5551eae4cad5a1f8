//! The documentation of sources, as a module that has nothing else: so that its examples can be run elsewhere.

use std::fs;
use std::io;
use std::path::Path;

/// A module with the documentation of all sources beneath a folder, each block on an item of its own.
pub(super) fn extract(folder: &Path) -> io::Result<String> {
    let mut blocks = Vec::new();
    read(folder, &mut blocks)?;
    let mut text = String::new();
    for (number, block) in blocks.iter().enumerate() {
        for line in block {
            text += &format!("///{line}\n");
        }
        text += &format!("pub mod documentation_{number} {{}}\n");
    }
    Ok(text)
}

fn read(folder: &Path, blocks: &mut Vec<Vec<String>>) -> io::Result<()> {
    let mut entries: Vec<_> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            read(&path, blocks)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            blocks.extend(blocks_of(&fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

/// Each run of lines that begin with `///` or `//!`, or each doc block between `/*!` or `/**` and `*/`, without that, if it has
/// an example.
fn blocks_of(source: &str) -> Vec<Vec<String>> {
    let mut blocks = vec![Vec::new()];
    let mut long = false;
    for line in source.lines() {
        let trimmed = line.trim_start();
        let opened = trimmed.strip_prefix("/*!").or_else(|| trimmed.strip_prefix("/**"));
        if let Some(rest) = opened {
            long = !rest.trim_end().ends_with("*/");
            blocks.push(vec![rest.to_string()]);
        } else if let Some(last) = line.trim_end().strip_suffix("*/").filter(|_| long) {
            long = false;
            blocks.last_mut().expect("there is one").push(last.to_string());
            blocks.push(Vec::new());
        } else if long {
            blocks.last_mut().expect("there is one").push(line.to_string());
        } else if let Some(rest) =
            trimmed.strip_prefix("///").or_else(|| trimmed.strip_prefix("//!"))
        {
            blocks.last_mut().expect("there is one").push(rest.to_string());
        } else if blocks.last().is_some_and(|block| !block.is_empty()) {
            blocks.push(Vec::new());
        }
    }
    blocks.retain(|block| block.iter().any(|line| line.trim_start().starts_with("```")));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_with_examples_are_found() {
        let source = "//! plain\n\n/// one\n/// ```\n/// a();\n/// ```\nfn a() {}\n  /*! ```compile_fail\n b();\n\n``` */\n\
                      /** ```\nc();\n```\n*/\nmod left {}\n/** no example */\nmod right {}\n";
        let blocks = blocks_of(source);
        assert_eq!(blocks.len(), 3);
        assert_eq!(blocks[0], [" one", " ```", " a();", " ```"]);
        assert_eq!(blocks[1], [" ```compile_fail", " b();", "", "``` "]);
        assert_eq!(blocks[2], [" ```", "c();", "```", ""]);
    }
}
