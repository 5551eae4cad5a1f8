//! Cargo wants a build script of packages that have `links`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}
