// A mail rule as its form edits it: doc/mailrules.md has the conditions and actions.

/** The conditions whose value is a list of lines. */
export const lists = ["from", "to", "group", "subject", "words", "attachment", "header"] as const;
/** The conditions with a few known values. */
export const choices = { direction: ["in", "out", "internal"], verdict: ["junk", "held", "authenticated", "unauthenticated", "forged"] } as const;
export const conditions = [...lists, "larger", "direction", "verdict"] as const;
export type Condition = (typeof conditions)[number];
export type Side = "when" | "unless";

/** Conditions by name, in the order in which they were added: lines, or one size. */
export type Values = Partial<Record<Condition, string[]>>;

export interface RuleForm {
  when: Values;
  unless: Values;
  refuse: string;
  journal: boolean;
  move: string;
  text: string;
  add: string[];
  replace: string[];
  stop: boolean;
}

export const emptyRule = (): RuleForm => ({ when: {}, unless: {}, refuse: "", journal: false, move: "", text: "", add: [], replace: [], stop: false });

type Json = Record<string, string | string[] | boolean | undefined>;

/** The form of a rule, or undefined if it holds something that the form does not know. */
export function readRule(text: string): RuleForm | undefined {
  const out = emptyRule();
  const { when = {}, unless = {}, do: actions = {}, ...rest } = JSON.parse(text) as { when?: Json; unless?: Json; do?: Json };
  if (Object.keys(rest).length > 0) return undefined;
  for (const [side, from] of [["when", when], ["unless", unless]] as const) {
    for (const [name, value] of Object.entries(from)) {
      if (!conditions.includes(name as Condition)) return undefined;
      out[side][name as Condition] = [value].flat() as string[];
    }
  }
  for (const [name, value] of Object.entries(actions)) {
    if (!(name in out) || name === "when" || name === "unless") return undefined;
    (out as unknown as Json)[name] = value;
  }
  return out;
}

function side(values: Values): Json | undefined {
  const out: Json = {};
  for (const [name, list] of Object.entries(values)) {
    const filled = list.map((v) => v.trim()).filter(Boolean);
    if (filled.length > 0) out[name] = name === "larger" ? filled[0] : filled;
  }
  return Object.keys(out).length > 0 ? out : undefined;
}

/** The rule as the server stores it. */
export function writeRule(f: RuleForm): string {
  const filled = (list: string[]) => list.map((v) => v.trim()).filter(Boolean);
  const actions: Json = {};
  if (f.journal) actions["journal"] = true;
  for (const name of ["move", "refuse", "text"] as const) if (f[name].trim()) actions[name] = f[name].trim();
  for (const name of ["add", "replace"] as const) if (filled(f[name]).length > 0) actions[name] = filled(f[name]);
  if (f.stop) actions["stop"] = true;
  return JSON.stringify({ when: side(f.when), unless: side(f.unless), do: actions });
}
