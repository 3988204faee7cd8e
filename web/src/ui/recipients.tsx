// A field for addresses: typed, pasted, or chosen among the people whom one knows and those of the directory.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Address } from "../jmap/types";
import { nameOrAddress } from "../state/shown";
import { check, isNobodys, listed, merged } from "../state/people";
import { t } from "../text";
import { Icon } from "./icons";

export const isAddress = (s: string) => /^[^\s@<>,;]+@[^\s@<>,;]+$/u.test(s);

/** Reads "Anna <anna@example.org>, ben@example.org". */
export function parseAddresses(text: string): Address[] {
  const out: Address[] = [];
  for (const part of text.match(/(?:"[^"]*"|<[^>]*>|[^,;\n])+/gu) ?? []) {
    const m = /^\s*"?(.*?)"?\s*<\s*([^>]+?)\s*>\s*$/u.exec(part);
    const email = m ? m[2]! : part.trim();
    if (email) out.push({ name: m?.[1] || null, email });
  }
  return out;
}

/** The pause in typing before the directory is asked, in milliseconds. */
const pause = 150;

export function Recipients({ id, label, list, set, extra }: { id: string; label: string; list: Address[]; set: (l: Address[]) => void; extra?: preact.ComponentChildren }) {
  const own = useSignal(list);
  const text = useSignal("");
  const at = useSignal(0);
  const input = useRef<HTMLInputElement>(null);
  // Typed text becomes a recipient when the field is left, unless the person comes back to it.
  const left = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  // The directory's answer, until the field is empty again; further typing narrows it down at once.
  const more = useSignal<{ text: string; list: Address[] }>({ text: "", list: [] });
  const words = text.value.trim();
  useEffect(() => {
    if (!words || isAddress(words)) return;
    const outdated = new AbortController();
    const timer = setTimeout(async () => {
      const list = await listed(words, outdated.signal);
      if (!outdated.signal.aborted) more.value = { text: words, list };
    }, pause);
    return () => {
      clearTimeout(timer);
      outdated.abort();
    };
  }, [words]);
  useEffect(() => {
    void check(own.value.map((a) => a.email).filter(isAddress));
  }, [own.value]);
  const nobody = own.value.filter((a) => isNobodys(a.email));
  // The nearest address to each that nobody has.
  const near = useSignal<{ of: string; is: Address }[]>([]);
  const strange = nobody.map((a) => a.email).join();
  useEffect(() => {
    const outdated = new AbortController();
    if (strange) {
      void import("../state/nearest").then(async (m) => {
        const list = await Promise.all(strange.split(",").map(async (of) => ({ of, is: await m.nearest(of, outdated.signal) })));
        if (!outdated.signal.aborted) near.value = list.flatMap(({ of, is }) => (is ? [{ of, is }] : []));
      });
    }
    return () => outdated.abort();
  }, [strange]);
  const fits = (a: Address) => words.toLowerCase().split(/\s+/u).every((w) => `${a.name ?? ""} ${a.email}`.toLowerCase().includes(w));
  const answered = words === more.value.text ? more.value.list : more.value.text && words.startsWith(more.value.text) ? more.value.list.filter(fits) : [];
  const found = words ? merged(words, answered, own.value) : [];
  const take = (l: Address[]) => {
    if (l.length === 0) return;
    own.value = [...own.value, ...l];
    set(own.value);
    text.value = "";
    if (input.current) input.current.value = "";
    at.value = 0;
  };
  return (
    <div class="line">
      <label for={id}>{label}</label>
      <div class="tokens">
        {own.value.map((a) => (
          <span class={`token ${isAddress(a.email) && !nobody.includes(a) ? "" : "bad"}`} title={nobody.includes(a) ? t("nobodyHas", a.email) : a.email}>{nobody.includes(a) && <Icon name="warning" />}{nameOrAddress(a)}
            <button type="button" aria-label={`${t("delete")} ${a.email}`} onMouseDown={(e) => e.preventDefault()} onClick={() => { input.current?.focus(); own.value = own.value.filter((x) => x !== a); set(own.value); }}>×</button></span>
        ))}
        <input
          id={id} ref={input} autocomplete="off" spellcheck={false} inputMode="email" role="combobox" aria-expanded={found.length > 0} aria-controls={`${id}-list`} aria-autocomplete="list"
          onInput={(e) => {
            const v = e.currentTarget.value;
            if (/[,;\n]\s*$/u.test(v)) take(parseAddresses(v));
            else { text.value = v; at.value = 0; }
          }}
          onPaste={(e) => {
            const v = e.clipboardData?.getData("text") ?? "";
            if (!/[,;\n]/u.test(v.trim())) return;
            e.preventDefault();
            take(parseAddresses(v));
          }}
          onFocus={() => clearTimeout(left.current)}
          onBlur={() => (left.current = setTimeout(() => take(parseAddresses(input.current?.value ?? "")), 120))}
          onKeyDown={(e) => {
            if (e.key === "ArrowDown" && found.length > 0) at.value = (at.value + 1) % found.length;
            else if (e.key === "ArrowUp" && found.length > 0) at.value = (at.value + found.length - 1) % found.length;
            else if ((e.key === "Enter" || e.key === "Tab") && text.value && !e.ctrlKey && !e.metaKey) { if (found[at.value]) take([found[at.value]!]); else take(parseAddresses(text.value)); if (e.key === "Tab") return; }
            else if (e.key === "Backspace" && !e.currentTarget.value && own.value.length > 0) { own.value = own.value.slice(0, -1); set(own.value); return; }
            else if (e.key === "Escape" && found.length > 0) text.value = "";
            else return;
            e.preventDefault();
            e.stopPropagation();
          }}
        />
      </div>
      {extra}
      {nobody.length > 0 && <p class="nobody" role="alert">{t("nobodyHas", nobody.map((a) => a.email).join(", "))} {near.value.map(({ of, is }) => nobody.some((a) => a.email === of) && (
        <button key={of} type="button" class="chip" onClick={() => { own.value = own.value.map((a) => (a.email === of ? is : a)); set(own.value); input.current?.focus(); }}>{t("didYouMean", nameOrAddress(is) === is.email ? is.email : `${nameOrAddress(is)} <${is.email}>`)}</button>
      ))}</p>}
      {found.length > 0 && (
        <ul class="suggest" id={`${id}-list`} role="listbox">
          {found.map((a, i) => <li role="option" aria-selected={i === at.value} onMouseDown={(e) => { e.preventDefault(); take([a]); }}>{nameOrAddress(a)}{a.name && <small>{a.email}</small>}</li>)}
        </ul>
      )}
    </div>
  );
}
