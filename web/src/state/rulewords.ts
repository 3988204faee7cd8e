// A rule in a sentence.

import { size } from "../text";
import { tu, type RuleText } from "../text/rules";
import { labelOf } from "./own";
import { compares, type Action, type ActionType, type Comparison, type Condition, type Field, type Rule, type Tried } from "./rules";

const capital = (s: string) => s.slice(0, 1).toUpperCase() + s.slice(1);

export const fieldText = (f: Field): string => tu(`rule${capital(f)}` as RuleText);

/** The words of a comparison; negated: of its opposite. */
export const comparisonText = (c: Comparison, negated: boolean): string => tu(`rule${negated ? "Not" : ""}${capital(c || "has")}` as RuleText);

export const actionText = (type: ActionType, value: string): string => tu(`rule${capital(type)}` as RuleText, value);

function conditionText(c: Condition): string {
  const what = c.field === "header" ? c.header ?? "" : fieldText(c.field);
  const how = comparisonText(c.comparison ?? "", !!c.not);
  if (c.field === "size") return `${what} ${how} ${size(c.size ?? 0)}`;
  return compares(c) ? `${what} ${how} ${(c.values ?? []).map((v) => `“${v}”`).join(` ${tu("ruleOr")} `)}` : `${what} ${how}`;
}

const shown = (a: Action) => (a.type === "label" && a.value ? labelOf(a.value).name : a.value ?? "");

/** A rule in a sentence; for a part of the script that no form shows, its first line. */
export function sentence(r: Rule): string {
  if (r.isOpaque) return (r.text ?? "").split("\n").map((l) => l.trim()).find((l) => l && !l.startsWith("#")) ?? "";
  const joiner = ` ${tu(r.match === "any" ? "ruleOr" : "ruleAnd")} `;
  const conditions = r.conditions.length === 0 ? tu("ruleEvery") : r.conditions.map(conditionText).join(joiner);
  const actions = r.actions.map((a) => actionText(a.type, shown(a)));
  return `${conditions} → ${[...actions, ...(r.stop ? [tu("ruleStop")] : [])].join(", ")}`;
}

const flagText = (f: string) => (f.toLowerCase() === "\\seen" ? tu("ruleRead") : f.toLowerCase() === "\\flagged" ? tu("ruleStar") : tu("ruleLabel", labelOf(f).name));

const doneTexts: Record<string, RuleText> = {
  keep: "ruleKeep", fileinto: "ruleMove", redirect: "ruleForward", reject: "ruleReject", discard: "ruleDiscard", vacation: "ruleVacation", notify: "ruleNotify", editheader: "ruleEditheader",
};

/** The actions of a dry run on a message, in words. */
export function triedText(x: Tried): string {
  if (x.error) return x.error;
  const kept = x.actions.some((a) => a.type === "keep");
  const said = x.actions.map((a) => {
    const key = a.type === "fileinto" && kept ? "ruleCopy" : a.type === "redirect" && x.actions.length === 1 ? "ruleRedirect" : doneTexts[a.type];
    return key ? tu(key, a.value ?? "") : a.type;
  });
  return [...said, ...new Set(x.actions.flatMap((a) => a.flags ?? []).map(flagText))].join(", ");
}
