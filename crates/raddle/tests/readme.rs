//! The README shows what the examples are.

#[test]
fn the_readme_has_the_quickstart() {
    let code: String = include_str!("../examples/quickstart.rs")
        .lines()
        .filter(|line| !line.starts_with("//!"))
        .map(|line| format!("{line}\n"))
        .collect();
    let readme = include_str!("../../../README.md").replace("\r\n", "\n");
    assert!(readme.contains(code.trim()), "README.md and examples/quickstart.rs differ");
}
