// A label as it is shown on messages.

import { hues, type Label } from "../state/own";
import { t } from "../text";

export function Chip({ of, remove }: { of: Label; remove?: () => void }) {
  const hue = (e: HTMLElement | null) => { if (e && of.hue) e.style.setProperty("--hue", String(hues[of.hue])); };
  const look = `label ${of.hue ? "hued" : ""}`;
  if (!remove) return <span class={look} ref={hue}>{of.name}</span>;
  return <button class={look} title={t("cancel")} ref={hue} onClick={remove}>{of.name} ×</button>;
}
