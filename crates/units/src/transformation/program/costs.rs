//! What templates cost at most, whatever they call: counted in the program itself, on the machine that Envoy has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mlua::{Function as Lua5Function, HookTriggers, Lua, Table, VmState};
use serde_json::json;

use super::super::template::{self, CALLS, Function, operators};
use super::Compiler;

/// Bytes of a body unless said.
const BODY_BYTES: u32 = 131_072;
/// How often the machine says what it did.
const EVERY: u32 = 1_000;
/// Instructions of the machine that one message takes at most.
const MOST_INSTRUCTIONS: u64 = 15_000_000;
/// Bytes that functions of the machine read and make.
const MOST_BYTES: u64 = 2_500_000;
/// Bytes of memory that are taken, garbage included.
const MOST_MEMORY: u64 = 8_000_000;

/// Counts what functions of texts read and make: what is done there is no instruction.
const COUNTED: &str = r#"
counted = 0
local function add(bytes) counted = counted + (bytes or 0) end
local s, c, number = string, table.concat, tonumber
local find, sub, gsub, rep, lower, upper, match = s.find, s.sub, s.gsub, s.rep, s.lower, s.upper, s.match
s.find = function(text, sought, from, plain)
  local a, b, d = find(text, sought, from, plain)
  add((b or #text) - (from or 1) + 1)
  return a, b, d
end
s.sub = function(...) local made = sub(...) add(#made) return made end
s.gsub = function(text, ...) local made, count = gsub(text, ...) add(#text + #made) return made, count end
s.rep = function(...) local made = rep(...) add(#made) return made end
s.lower = function(text) add(#text) return lower(text) end
s.upper = function(text) add(#text) return upper(text) end
s.match = function(text, pattern, from)
  if not from then add(#text) end
  return match(text, pattern, from)
end
tonumber = function(text, ...) if type(text) == "string" then add(#text) end return number(text, ...) end
table.concat = function(...) local made = c(...) add(#made) return made end
"#;

/// Has one template evaluated, of a message with many headers.
const EVALUATED: &str = r#"
local headers = {
  getNumValues = function(_, name) return name == "a" and 100 or 0 end,
  getAtIndex = function() return "b" end,
}
return {
  read = function(body) return decode_json(new_state(headers), body) end,
  run = function(json, bytes, items)
    local state = new_state(headers)
    state.steps = state.steps / 10
    state.left, state.json, state.text = state.left + 4 * bytes, json, ""
    collectgarbage()
    collectgarbage("stop")
    local before = collectgarbage("count")
    counted = 0
    local done, why = pcall(evaluate, state, items, 1)
    local memory = (collectgarbage("count") - before) * 1024
    collectgarbage("restart")
    return counted, math.floor(memory), done and "" or why == BAD and "400" or tostring(why)
  end,
}
"#;

struct Machine {
    lua: Lua,
    instructions: Arc<AtomicU64>,
    run: Lua5Function,
    json: mlua::Value,
    bytes: usize,
}

/// What is counted, and the most of it.
type Bound = (&'static str, fn(&Cost) -> u64, u64);

#[derive(Debug)]
struct Cost {
    instructions: u64,
    bytes: u64,
    memory: u64,
    why: String,
}

impl Machine {
    fn new() -> Self {
        let lua = Lua::new();
        lua.load("jit.off()").exec().unwrap();
        lua.load(COUNTED).exec().unwrap();
        let program = envoy::extensions::programs::transformation_program(BODY_BYTES) + EVALUATED;
        let all: Table = lua.load(program).set_name("=program").eval().unwrap();
        let keys: serde_json::Map<_, _> = (0..1_000).map(|key| (format!("k{key}"), json!(key))).collect();
        let body = json!({
            "xs": (0..300).collect::<Vec<_>>(),
            "t": "a".repeat(40_000),
            "u": "é\"".repeat(10_000),
            "l": vec![1; 5_000],
            "f": vec![0.1; 4_000],
            "w": vec!["b"; 2_000],
            "m": keys,
        });
        let body = body.to_string();
        assert!(body.len() <= BODY_BYTES as usize, "{}", body.len());
        let json = all.get::<Lua5Function>("read").unwrap().call(&*body).unwrap();
        let instructions = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&instructions);
        lua.set_hook(HookTriggers::new().every_nth_instruction(EVERY), move |_, _| {
            let all = counted.fetch_add(u64::from(EVERY), Ordering::Relaxed);
            if all > 2 * MOST_INSTRUCTIONS {
                return Err(mlua::Error::runtime("it does not end"));
            }
            Ok(VmState::Continue)
        })
        .unwrap();
        let run = all.get("run").unwrap();
        Self { lua, instructions, run, json, bytes: body.len() }
    }

    fn cost(&self, template: &str) -> Cost {
        let parsed = template::parse(template).unwrap_or_else(|refused| panic!("{template}: {refused}"));
        let mut items = Vec::new();
        Compiler::compile(&parsed, None, &mut items);
        let items = self.lua.create_sequence_from(items).unwrap();
        self.instructions.store(0, Ordering::Relaxed);
        let (bytes, memory, why): (u64, u64, String) = self.run.call((&self.json, self.bytes, items)).unwrap();
        let instructions = self.instructions.load(Ordering::Relaxed);
        Cost { instructions, bytes, memory, why }
    }
}

/// As often as the bounds allow.
fn often(expression: &str) -> String {
    format!("{{% for i in xs %}}{{% for j in xs %}}{{% set z = {expression} %}}{{% endfor %}}{{% endfor %}}")
}

const VALUES: [&str; 8] = ["t", "l", "f", "m", "[]", "''", "9007199254740992", "1e308"];
const GIVEN: [&str; 5] = ["t", "'b'", "2", "true", "5e-324"];

/// Each filter, test, operator and function of each kind of value.
fn all() -> Vec<String> {
    let mut all = Vec::new();
    for value in VALUES {
        for call in &CALLS {
            let behind = |given: &str| {
                let sign = if call.is_test { "is" } else { "|" };
                format!("({value}) {sign} {}{given}", call.name)
            };
            if call.least == 0 {
                all.push(behind(""));
            }
            for (place, name) in call.values.iter().enumerate() {
                for given in GIVEN {
                    if call.least == 2 {
                        all.extend(GIVEN.iter().map(|other| behind(&format!("({given}, {other})"))));
                    } else if !name.is_empty() {
                        all.push(behind(&format!("({name}={given})")));
                    } else if place == 0 {
                        all.push(behind(&format!("({given})")));
                    } else {
                        all.push(behind(&format!("(none, {given})")));
                    }
                }
            }
        }
        for other in VALUES.iter().chain(&GIVEN) {
            all.extend(operators().map(|operator| format!("({value}) {} ({other})", operator.0)));
            all.push(format!("({value})[{other}]"));
            all.push(format!("({value}) ~ ({other})"));
        }
        for part in ["[0]", "[1:]", ".a", "[:-1]"] {
            all.push(format!("({value}){part}"));
        }
        all.extend([format!("not ({value})"), format!("[{value}, {value}]"), format!("{{'a': {value}}}")]);
    }
    for text in ["t", "u", "'a'"] {
        for (_, name, count, _) in Function::ALL {
            for other in ["t", "'a'", "''"] {
                let rest = format!(", {other}").repeat(count - 1);
                all.push(format!("{name}({text}{rest})"));
            }
        }
        all.extend([format!("substring({text}, 0)"), format!("substring({text}, i)")]);
    }
    all
}

#[test]
fn whatever_a_template_calls_it_costs_what_its_bounds_say() {
    let machine = Machine::new();
    let mut worst: Vec<(String, Cost)> = Vec::new();
    for expression in all() {
        let cost = machine.cost(&often(&expression));
        assert!(cost.why.is_empty() || cost.why == "400" || cost.why.contains("not end"), "{expression}: {}", cost.why);
        worst.push((expression, cost));
    }
    let by: [Bound; 3] = [
        ("instructions", |cost| cost.instructions, MOST_INSTRUCTIONS),
        ("bytes", |cost| cost.bytes, MOST_BYTES),
        ("memory", |cost| cost.memory, MOST_MEMORY),
    ];
    let mut over = Vec::new();
    for (what, of, most) in by {
        worst.sort_by_key(|(_, cost)| std::cmp::Reverse(of(cost)));
        for (expression, cost) in worst.iter().take(12) {
            println!("{what} {} of {expression}", of(cost));
        }
        over.extend(
            worst.iter().filter(|(_, cost)| of(cost) > most).map(|(one, cost)| format!("{what} {one} {cost:?}")),
        );
    }
    assert!(over.is_empty(), "{} cost too much:\n{}", over.len(), over.join("\n"));
}
