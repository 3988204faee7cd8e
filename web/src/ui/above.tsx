// The layers above a page: sheets, questions, menus, and notices.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { menu, sheet, toasts, type Sheet } from "../state/screen";
import { t } from "../text";
import { Icon } from "./icons";

/**
 * A sheet: one of the client's own, or with onClose one that whoever shows it closes. It stays open until then: onClose may ask first.
 */
export function Frame({ title, small, children, onClose = () => { sheet.value = null; } }: { title: string; small?: boolean; children: ComponentChildren; onClose?: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  const gone = useRef(false);
  useEffect(() => {
    const e = box.current!;
    e.showModal();
    return () => {
      gone.current = true;
      e.close();
    };
  }, []);
  return (
    <dialog class={`sheet ${small ? "small" : ""}`} ref={box} aria-label={title} onCancel={(e) => { e.preventDefault(); onClose(); }} onClose={() => { if (!gone.current) onClose(); }} onClick={(e) => { if (e.target === e.currentTarget) onClose(); }}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}

export function Ask({ s }: { s: Extract<Sheet, { kind: "ask" }> }) {
  const text = useSignal(s.input ?? "");
  const problem = useSignal("");
  const take = async () => {
    const answer = s.input === undefined ? true : text.value;
    // A further question opens its own sheet; a check by the server leaves this one open meanwhile.
    const before = sheet.value;
    const checked = s.done(answer);
    const why: unknown = checked instanceof Promise ? await checked.catch((e: unknown) => t("refusedByServer", String(e))) : checked;
    problem.value = typeof why === "string" ? why : "";
    if (!problem.value && sheet.value === before) sheet.value = null;
  };
  const hint = s.hint?.(text.value) ?? "";
  return (
    <Frame title={s.title} small>
      <form onSubmit={(e) => { e.preventDefault(); void take(); }}>
        {s.input === undefined ? <p>{s.text}</p> : <label class="field"><span>{s.text}</span><input {...(s.type ? { type: s.type } : {})} value={text.value} onInput={(e) => { text.value = e.currentTarget.value; problem.value = ""; }} autofocus /></label>}
        {hint && <p class="quiet" role="status">{hint}</p>}
        {problem.value && <p class="said" role="alert">{problem.value}</p>}
        <div class="ends">
          <button type="button" class="button" onClick={() => (sheet.value = null)}>{t("cancel")}</button>
          <button class={`button ${s.danger ? "danger" : "primary"}`}>{s.yes}</button>
        </div>
      </form>
    </Frame>
  );
}

export function Menu() {
  const m = menu.value;
  const box = useRef<HTMLUListElement>(null);
  useEffect(() => {
    if (!m) return;
    const before = document.activeElement as HTMLElement | null;
    box.current?.querySelector("button")?.focus();
    const away = (e: Event) => {
      if (!box.current?.contains(e.target as Node)) menu.value = null;
    };
    addEventListener("pointerdown", away);
    return () => {
      removeEventListener("pointerdown", away);
      before?.focus();
    };
  }, [m]);
  if (!m) return null;
  return (
    <ul class="menu" role="menu" ref={(e: HTMLUListElement | null) => { box.current = e; if (e) { e.style.left = `${m.x}px`; e.style.top = `${Math.max(8, m.y)}px`; } }}
      onKeyDown={(e) => {
        const all = [...box.current!.querySelectorAll("button")];
        const at = all.indexOf(document.activeElement as HTMLButtonElement);
        if (e.key === "Escape") menu.value = null;
        else if (e.key === "ArrowDown") all[(at + 1) % all.length]?.focus();
        else if (e.key === "ArrowUp") all[(at + all.length - 1) % all.length]?.focus();
        else return;
        e.preventDefault();
        e.stopPropagation();
      }}>
      {m.items.map((i) => (
        <li role="none"><button role="menuitem" class={i.hue === undefined ? "" : "hued"} ref={(e: HTMLButtonElement | null) => { if (e && i.hue !== undefined) e.style.setProperty("--hue", String(i.hue)); }} onClick={() => { menu.value = null; i.run(); }}>{i.icon && <Icon name={i.icon as Parameters<typeof Icon>[0]["name"]} />}{i.text}{i.key && <kbd aria-hidden="true">{i.key}</kbd>}</button></li>
      ))}
    </ul>
  );
}

export function Toasts({ children }: { children?: ComponentChildren }) {
  return (
    <div class="toasts" role="status" aria-live="polite">
        {children}
        {toasts.value.map((x) => (
          <div class="toast" key={x.key}>
            {x.text}
            {x.action && <button class="button" onClick={() => { toasts.value = toasts.value.filter((y) => y !== x); x.action!.run(); }}>{x.action.text}</button>}
          </div>
        ))}
      </div>
  );
}
