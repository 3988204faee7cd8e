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
interface Rule { when?: Json; unless?: Json; do?: Json }

/** The form of a rule, or undefined if it holds something that the form does not know: a later release may have written it. */
export function readRule(text: string): RuleForm | undefined {
  try {
    return formOf(JSON.parse(text) as Rule);
  } catch {
    return undefined;
  }
}

function formOf({ when = {}, unless = {}, do: actions = {}, ...rest }: Rule): RuleForm | undefined {
  const out = emptyRule();
  if (Object.keys(rest).length > 0) return undefined;
  for (const [side, from] of [["when", when], ["unless", unless]] as const) {
    for (const [name, value] of Object.entries(from)) {
      if (!conditions.includes(name as Condition)) return undefined;
      out[side][name as Condition] = [value].flat() as string[];
    }
  }
  for (const [name, value] of Object.entries(actions)) {
    if (!Object.hasOwn(out, name) || name === "when" || name === "unless") return undefined;
    (out as unknown as Json)[name] = value;
  }
  return out;
}

/** The lines that are not empty. */
export const filled = (lines: string[]): string[] => lines.map((l) => l.trim()).filter(Boolean);

/** The conditions of one side. The server refuses one without a value: without it the rule would match more. */
function side(values: Values): Json | undefined {
  const out: Json = {};
  for (const [name, lines] of Object.entries(values)) out[name] = name === "larger" ? filled(lines)[0] : filled(lines);
  return Object.keys(out).length > 0 ? out : undefined;
}

/** The rule as the server stores it. */
export function writeRule(f: RuleForm): string {
  const actions: Json = {};
  if (f.journal) actions["journal"] = true;
  for (const name of ["move", "refuse", "text"] as const) if (f[name].trim()) actions[name] = f[name].trim();
  for (const name of ["add", "replace"] as const) if (filled(f[name]).length > 0) actions[name] = filled(f[name]);
  if (f.stop) actions["stop"] = true;
  return JSON.stringify({ when: side(f.when), unless: side(f.unless), do: actions });
}
