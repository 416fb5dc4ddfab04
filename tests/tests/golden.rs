//! Golden cases, one test for each: what `portcullis translate` prints for `tests/golden/TOPIC/CASE/input.yaml` stands
//! beside it in `output.yaml`, and for `examples/NAME` in `tests/golden/examples/NAME.yaml`. Take over a change with `UPDATE_EXPECT=1 cargo test -p portcullis-tests --test golden`,
//! and read the difference before it is committed.

use std::path::{Path, PathBuf};

use expect_test::expect_file;
use libtest_mimic::{Arguments, Failed, Trial};
use portcullis_tests::portcullis;

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut trials: Vec<Trial> = folders(&here.join("golden"))
        .iter()
        .flat_map(|topic| folders(topic))
        .map(|case| Trial::test(name(&case), move || print_and_compare(&case)))
        .collect();
    for example in folders(&here.join("../examples")) {
        let output = here.join("golden/examples").join(example.file_name().unwrap_or_default()).with_extension("yaml");
        trials.push(Trial::test(name(&example), move || {
            expect_file![output].assert_eq(&translate(&example)?);
            Ok(())
        }));
    }
    let quickstart = here.join("../examples/quickstart");
    let again = move || print_again_and_again(&quickstart);
    trials.push(Trial::test("the same files are printed the same way every time", again));
    libtest_mimic::run(&Arguments::from_args(), trials).exit()
}

fn print_and_compare(case: &Path) -> Result<(), Failed> {
    let printed = translate(&case.join("input.yaml"))?;
    expect_file![case.join("output.yaml")].assert_eq(&printed);
    Ok(())
}

fn print_again_and_again(path: &Path) -> Result<(), Failed> {
    let first = translate(path)?;
    for _ in 0..5 {
        if translate(path)? != first {
            return Err("printed something else".into());
        }
    }
    Ok(())
}

fn translate(path: &Path) -> Result<String, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let printed = runtime.block_on(portcullis::translate_as("yaml", &[path]));
    Ok(printed.map_err(|error| format!("{error:#}"))?)
}

/// `TOPIC/CASE`.
fn name(case: &Path) -> String {
    let parts = case.components().rev().take(2).collect::<Vec<_>>();
    let parts: PathBuf = parts.into_iter().rev().collect();
    parts.to_string_lossy().into_owned()
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten();
    let mut folders: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}
