//! What instructions make, as it is written in templates.

use super::super::template::Function;

/// One change; none of what says only how the body is read.
pub(super) fn change(change: &[String], kept: &[String]) -> Option<String> {
    let (kind, rest) = change.split_first()?;
    if kind == "body" {
        return Some(format!("body: {}", expression(rest, kept, "header")));
    }
    let (name, rest) = rest.split_first()?;
    Some(match (&**kind, rest) {
        ("read", _) => return None,
        ("remove", _) => format!("remove {name}"),
        ("meta", [key, value @ ..]) => format!("metadata {name} {key}: {}", expression(value, kept, "header")),
        (_, [value]) if value.starts_with('=') => format!("{kind} {name}: {}", &value[1..]),
        _ => format!("{kind} {name}: {}", expression(rest, kept, "header")),
    })
}

/// What instructions make; of what jumps only that it does.
pub(super) fn expression(instructions: &[String], kept: &[String], header: &str) -> String {
    let jumps = |instruction: &String| instruction.starts_with(['<', 'J', 'F', 'A', 'O', 'L']);
    if instructions.iter().any(jumps) {
        return format!("a template of {} parts", instructions.len());
    }
    let mut stack: Vec<String> = Vec::new();
    for instruction in instructions {
        let mut chars = instruction.chars();
        let letter = chars.next().unwrap_or_default();
        let operand = chars.as_str();
        let count: usize = operand.parse().unwrap_or_default();
        let mut take = |count: usize| stack.split_off(stack.len().saturating_sub(count));
        let said = match letter {
            'V' | 'W' => continue,
            '=' => format!("{operand:?}"),
            'k' => count.checked_sub(1).and_then(|index| kept.get(index)).cloned().unwrap_or_default(),
            '~' => take(count).join(" ~ "),
            'u' => {
                let numbers = operand.trim_end_matches(':').replace(':', ", ");
                format!("substring({}, {numbers})", take(1).concat())
            }
            'q' => format!("substring({})", known(take(3)).join(", ")),
            'v' | '#' | '%' => operand.to_owned(),
            '@' => match operand {
                "t" => "true".to_owned(),
                "f" => "false".to_owned(),
                "n" => "none".to_owned(),
                _ => String::new(),
            },
            'B' => "body()".to_owned(),
            'X' => "context()".to_owned(),
            '.' => format!("{}.{operand}", take(1).concat()),
            '[' => {
                let all = take(2);
                format!("{}[{}]", all.first().map_or("", |one| one), all.last().map_or("", |place| place))
            }
            ':' => {
                let all = take(4);
                let bound = |index: usize| all.get(index).filter(|bound| *bound != "none").map_or("", |bound| bound);
                format!("{}[{}:{}:{}]", bound(0), bound(1), bound(2), bound(3))
            }
            '!' => format!("not {}", take(1).concat()),
            '-' => format!("-{}", take(1).concat()),
            'o' => format!("({})", take(2).join(&format!(" {operand} "))),
            'l' => format!("[{}]", take(count).join(", ")),
            'm' => {
                let all = take(count * 2);
                let pairs: Vec<_> = all.chunks(2).map(|pair| pair.join(": ")).collect();
                format!("{{{}}}", pairs.join(", "))
            }
            '|' | '?' => {
                let (count, name) = operand.split_at(operand.len().min(1));
                let all = known(take(count.parse().unwrap_or_default()));
                let (one, values) = all.split_first().map_or(("", &[][..]), |(one, values)| (&**one, values));
                let sign = if letter == '|' { "|" } else { "is" };
                let values = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
                format!("{one} {sign} {name}{values}")
            }
            _ => {
                let function = Function::ALL.iter().find(|(.., known)| *known == letter);
                let (name, count) = function.map_or(("", 0), |(_, name, count, _)| (*name, *count));
                let name = if letter == 'h' { header } else { name };
                format!("{name}({})", take(count).join(", "))
            }
        };
        stack.push(said);
    }
    stack.pop().unwrap_or_default()
}

/// Without what is not given.
fn known(mut values: Vec<String>) -> Vec<String> {
    values.retain(|value| !value.is_empty());
    values
}
