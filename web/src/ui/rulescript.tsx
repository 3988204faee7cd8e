// A script as text, with the mistakes that the server finds at their lines.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isChanged, mistakesIn, readScript, readScripts, writeScript, type Mistake, type Script } from "../state/rules";
import { say } from "../state/screen";
import { refusal, t } from "../text";
import { tu } from "../text/rules";

export function ScriptEditor({ close }: { close: () => void }) {
  const scripts = useSignal<{ state: string; list: Script[] } | null>(null);
  const chosen = useSignal<Script | null>(null);
  const text = useSignal("");
  const mistakes = useSignal<Mistake[] | null>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLOListElement>(null);
  const failed = (e: unknown) => void say(refusal(e));
  // A text that could not be read must not be saved as an empty one.
  const pick = async (s: Script | undefined) => {
    const read = s ? await readScript(s) : "";
    if (read === undefined) return void say(t("cannotReach"));
    chosen.value = s ?? null;
    text.value = read;
    return true;
  };
  const begin = async () => {
    const all = await readScripts();
    if (!all) return void say(t("cannotReach"));
    if (!(await pick(all.list.find((s) => s.isActive) ?? all.list.find((s) => s.name === "rules") ?? all.list[0]))) return undefined;
    scripts.value = all;
    return true;
  };
  useEffect(() => {
    void begin().then((is) => is || close(), (e: unknown) => { failed(e); close(); });
  }, []);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      mistakesIn(text.value, stop.signal).then((found) => {
        if (found && !stop.signal.aborted) mistakes.value = found;
      }, () => undefined);
    }, 400);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [text.value]);
  const save = async (activate: boolean) => {
    try {
      const found = await writeScript(chosen.value?.id ?? null, text.value, activate, scripts.value!.state);
      if (!found) return void say(t("cannotReach"));
      mistakes.value = found;
      if (found.length > 0) return undefined;
      say(t("saved"));
      close();
    } catch (e) {
      if (!isChanged(e)) return failed(e);
      const now = await readScripts().catch(() => undefined);
      if (now) scripts.value = now;
      say(tu("ruleScriptChanged"), undefined, 12);
    }
    return undefined;
  };
  const goTo = (line: number) => {
    const lines = text.value.split("\n");
    const from = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0);
    area.current!.focus();
    area.current!.setSelectionRange(from, from + (lines[line - 1]?.length ?? 0));
    area.current!.scrollTop = (line - 3) * 20;
  };
  const wrong = new Map((mistakes.value ?? []).map((m) => [m.line, m.text]));
  const off = !chosen.value?.isActive;
  if (!scripts.value) return <p role="status">{t("loading")}</p>;
  return (
    <form class="script" onSubmit={(e) => { e.preventDefault(); void save(off); }}>
      {scripts.value.list.length > 1 && (
        <label class="field"><span>{tu("ruleScriptName")}</span>
          <select value={chosen.value?.id ?? ""} onChange={(e) => void pick(scripts.value!.list.find((s) => s.id === e.currentTarget.value)).catch(failed)}>
            {scripts.value.list.map((s) => <option key={s.id} value={s.id}>{s.isActive ? tu("ruleScriptActive", s.name) : s.name}</option>)}
          </select></label>
      )}
      <div class="script-text">
        <ol aria-hidden="true" ref={gutter}>{text.value.split("\n").map((_, i) => <li key={i} class={wrong.has(i + 1) ? "wrong" : ""} title={wrong.get(i + 1)}>{i + 1}</li>)}</ol>
        <textarea ref={area} wrap="off" spellcheck={false} aria-label={tu("ruleOpaque")} aria-invalid={wrong.size > 0} value={text.value} onInput={(e) => (text.value = e.currentTarget.value)}
          onScroll={(e) => { if (gutter.current) gutter.current.scrollTop = e.currentTarget.scrollTop; }} />
      </div>
      <div role="status" class="script-said">
        {mistakes.value?.length === 0 && <p class="quiet">{tu("ruleScriptValid")}</p>}
        {(mistakes.value ?? []).map((m) => (
          <p class="said">{m.line ? <button type="button" class="link" onClick={() => goTo(m.line)}>{tu("ruleScriptLine", m.line, m.text)}</button> : m.text}</p>
        ))}
      </div>
      <div class="ends">
        <button type="button" class="button" onClick={close}>{t("cancel")}</button>
        {off && chosen.value && <button type="button" class="button" onClick={() => void save(false)}>{t("save")}</button>}
        <button class="button primary">{off ? tu("ruleScriptUse") : t("save")}</button>
      </div>
    </form>
  );
}
