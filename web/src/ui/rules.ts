// Style sheets of foreign HTML: rules are kept if their selectors and conditions are simple.

import { keepDeclarations, noTone, type Kept, type Tone } from "./styles";

/** Bounds of the work that a message's style sheets make: bytes read, rules kept, and rules times elements that they are tried on. */
const maxSheets = 1 << 21, maxRules = 2000, maxTries = 5_000_000, fewestRules = 100;

/** Conditions that depend on the width alone, or on nothing that the message changes: the frame is as high as its content. */
const feature = /\((?:(?:min|max)-(?:device-)?width|(?:min-|max-)?resolution|-webkit-(?:min-|max-)?device-pixel-ratio|prefers-(?:color-scheme|reduced-motion)|hover|pointer)(?:: ?[\w.\- /]+)?\)|\((?:[\d.a-z]+ ?[<>]=? ?)?width ?[<>]=? ?[\d.a-z]+\)/giu;
const plainCondition = /^(?:[\s,()]|\b(?:only|not|screen|all|print|handheld|tv|and|or)\b)*$/iu;

/** A selector of a few steps, of names, attributes and simple pseudo-classes. */
function simple(selector: string): boolean {
  if (selector.length > 1000 || /::|:(?:has|host|host-context|is|where|nth-[\w-]*\(.*\bof\b|target|focus|active)\b/iu.test(selector)) return false;
  return selector.split(",").every((s) => s.trim().split(/\s*[\s>+~]\s*/u).length <= 6);
}

const ofLinks = (selector: string) => selector.split(",").every((s) => /(?:^|[\s>+~])a(?:[.:#[][^\s>+~]*)?$|:(?:link|visited|hover)$|hyperlink(?:followed)?$/iu.test(s.trim()));

class Filter {
  out: string[] = [];
  remote = false;
  #left: number;
  constructor(readonly load: boolean, readonly dark: boolean, readonly tone: Tone, elements: number) {
    this.#left = Math.max(fewestRules, Math.min(maxRules, Math.floor(maxTries / Math.max(1, elements))));
  }

  rules(list: CSSRuleList, depth: number, forDark: boolean): void {
    for (const rule of Array.from(list)) {
      if (this.#left <= 0) return;
      if (rule instanceof CSSStyleRule) this.rule(rule, forDark);
      else if (rule instanceof CSSMediaRule && depth < 4) this.media(rule, depth);
      else if (rule instanceof CSSSupportsRule && depth < 4 && CSS.supports(rule.conditionText)) this.rules(rule.cssRules, depth + 1, forDark);
    }
  }

  rule(rule: CSSStyleRule, forDark: boolean): void {
    if (!simple(rule.selectorText)) return;
    if (/\bdark\b/u.test(rule.style.getPropertyValue("color-scheme"))) this.tone.saysDark = true;
    const tone = forDark ? noTone() : this.tone;
    const kept = keepDeclarations(rule.style, this.load, tone, ofLinks(rule.selectorText));
    this.remote ||= kept.remote;
    if (!kept.text) return;
    if (forDark) {
      this.tone.darkText ||= rule.style.color !== "";
      this.tone.darkGround ||= rule.style.backgroundColor !== "";
    }
    this.#left--;
    this.out.push(`${rule.selectorText} {${kept.text}}`);
  }

  media(rule: CSSMediaRule, depth: number): void {
    const condition = rule.media.mediaText;
    if (!plainCondition.test(condition.replace(feature, ""))) return;
    const forDark = /prefers-color-scheme: ?dark/iu.test(condition);
    // The page decides what is dark, not the device: the person may have chosen otherwise.
    const decided = condition.replace(/\(prefers-color-scheme: ?(dark|light)\)/giu, (_, of: string) => ((of.toLowerCase() === "dark") === this.dark ? "(min-width: 0px)" : "(max-width: 0px)"));
    const at = this.out.length;
    this.rules(rule.cssRules, depth + 1, forDark);
    if (this.out.length > at) this.out.push(`@media ${decided} {${this.out.splice(at).join("\n")}}`);
  }
}

/** Makes style sheets harmless. What they import, and fonts, are left out; a constructed sheet loads nothing while it is read. */
export function keepSheets(sheets: string[], elements: number, load: boolean, dark: boolean, tone: Tone): Kept {
  const filter = new Filter(load, dark, tone, elements);
  let left = maxSheets;
  for (const text of sheets) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text.slice(0, left));
    left -= Math.min(left, text.length);
    filter.rules(sheet.cssRules, 0, false);
  }
  return { text: filter.out.join("\n"), remote: filter.remote };
}
