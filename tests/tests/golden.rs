//! Golden cases, one test for each: what `portcullis translate` prints for `tests/golden/TOPIC/CASE/input.yaml` stands
//! beside it in `output.yaml`, with the settings in `settings.yaml` where there are any, and for `examples/NAME` in
//! `tests/golden/examples/NAME.yaml`. The HTTP connection manager, which is the same in all listeners, stands in
//! `tests/golden/connection-manager.yaml`, and configurations of extensions to which nothing refers in
//! `tests/golden/extensions.yaml`; elsewhere each stands in a line, unless it differs. Take over a change with
//! `UPDATE_EXPECT=1 cargo test -p portcullis-tests --test golden`, and read the difference before it is committed.

#[path = "golden/extensions.rs"]
mod extensions;
#[path = "golden/manager.rs"]
mod manager;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use expect_test::expect_file;
use libtest_mimic::{Arguments, Failed, Trial};
use portcullis_tests::portcullis;

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manager = Arc::new(Manager::of(here));
    let cases: Vec<_> = folders(&here.join("golden")).iter().flat_map(|topic| folders(topic)).collect();
    let mut trials: Vec<Trial> = cases
        .into_iter()
        .map(|case| {
            let manager = Arc::clone(&manager);
            Trial::test(name(&case), move || {
                print_and_compare(&manager, &[&case.join("input.yaml")], &case.join("output.yaml"))
            })
        })
        .collect();
    let quickstart = here.join("../examples/quickstart");
    for example in folders(&here.join("../examples")) {
        // Most have no Gateway of their own.
        let inputs =
            if brings_a_class(&example) { vec![example.clone()] } else { vec![quickstart.clone(), example.clone()] };
        let output = here.join("golden/examples").join(example.file_name().unwrap_or_default()).with_extension("yaml");
        let manager = Arc::clone(&manager);
        trials.push(Trial::test(name(&example), move || {
            let inputs: Vec<_> = inputs.iter().map(PathBuf::as_path).collect();
            print_and_compare(&manager, &inputs, &output)
        }));
    }
    let whole = Arc::clone(&manager);
    trials.push(Trial::test("the connection manager of all listeners", move || {
        expect_file![&whole.file].assert_eq(whole.printed()?);
        Ok(())
    }));
    let whole = Arc::clone(&manager);
    trials.push(Trial::test("configurations of extensions to which nothing refers", move || {
        expect_file![whole.file.with_file_name("extensions.yaml")].assert_eq(&whole.extensions()?.concat());
        Ok(())
    }));
    trials.push(Trial::test("a connection manager that differs is printed whole", manager::differs));
    let again = move || print_again_and_again(&quickstart);
    trials.push(Trial::test("the same files are printed the same way every time", again));
    libtest_mimic::run(&Arguments::from_args(), trials).exit()
}

/// The connection manager and the extensions as one case prints them.
struct Manager {
    file: PathBuf,
    printed: OnceLock<Result<(String, Vec<String>), String>>,
    case: PathBuf,
}

impl Manager {
    fn of(here: &Path) -> Self {
        let golden = here.join("golden");
        Self {
            file: golden.join("connection-manager.yaml"),
            printed: OnceLock::new(),
            case: golden.join("gateway/without-routes/input.yaml"),
        }
    }

    fn both(&self) -> Result<&(String, Vec<String>), Failed> {
        let printed = self.printed.get_or_init(|| {
            let printed = translate(&[&self.case]).map_err(|error| error.message().unwrap_or_default().to_owned())?;
            let manager = manager::first(&printed).ok_or_else(|| "no connection manager is printed".to_owned())?;
            Ok((manager, extensions::first(&printed)))
        });
        Ok(printed.as_ref().map_err(String::clone)?)
    }

    fn printed(&self) -> Result<&str, Failed> {
        Ok(&self.both()?.0)
    }

    fn extensions(&self) -> Result<&[String], Failed> {
        Ok(&self.both()?.1)
    }
}

fn print_and_compare(manager: &Manager, inputs: &[&Path], output: &Path) -> Result<(), Failed> {
    let settings = inputs.first().map(|input| input.with_file_name("settings.yaml")).filter(|file| file.exists());
    let printed = manager::elided(&translate_with(inputs, settings.as_deref())?, manager.printed()?);
    let printed = extensions::elided(&printed, manager.extensions()?);
    expect_file![output].assert_eq(&printed);
    Ok(())
}

fn print_again_and_again(path: &Path) -> Result<(), Failed> {
    let first = translate(&[path])?;
    for _ in 0..5 {
        if translate(&[path])? != first {
            return Err("printed something else".into());
        }
    }
    Ok(())
}

/// Whether files of a folder have a `GatewayClass`.
fn brings_a_class(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    files.filter_map(|file| std::fs::read_to_string(file).ok()).any(|text| text.contains("kind: GatewayClass"))
}

fn translate(paths: &[&Path]) -> Result<String, Failed> {
    translate_with(paths, None)
}

/// The same with settings.
fn translate_with(paths: &[&Path], settings: Option<&Path>) -> Result<String, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let settings = settings.map(|file| ["--config".to_owned(), file.to_string_lossy().into_owned()]);
    let arguments: Vec<_> = settings.into_iter().flatten().collect();
    let printed = runtime.block_on(portcullis::translate_with("yaml", paths, &arguments));
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
