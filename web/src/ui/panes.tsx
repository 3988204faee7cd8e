// The borders between the panes: they move by dragging and by keys.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { prefer, preferences, setWidth, type Pane } from "../state/prefs";
import { t } from "../text";

/** The least and the most pixels of a pane; the message keeps at least as many as the style sheet says. */
function bounds(pane: Pane): { least: number; most: number } {
  if (pane === "side") return { least: 180, most: 400 };
  const side = document.querySelector(".frame > .side")?.getBoundingClientRect().width ?? 0;
  return { least: 280, most: Math.max(280, innerWidth - side - (innerWidth > 1180 ? 400 : 300)) };
}

const widthOf = (pane: Pane) => Math.round(document.querySelector(`.frame > .${pane}`)?.getBoundingClientRect().width ?? 0);

/** The pixels of one press of an arrow. */
const step = 16;

/** The border to the right of a pane. A double click, or Enter, brings the usual width back. */
export function Border({ of }: { of: Pane }) {
  const from = useRef<{ x: number; width: number } | null>(null);
  const now = useSignal({ width: 0, least: 0, most: 0 });
  const measure = () => (now.value = { width: widthOf(of), ...bounds(of) });
  useEffect(() => {
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, [preferences.value.side, preferences.value.list]);
  const inside = (width: number) => {
    const { least, most } = bounds(of);
    return Math.min(most, Math.max(least, width));
  };
  const keep = (width: number) => prefer({ [of]: width });
  const end = () => {
    if (!from.current) return;
    from.current = null;
    if (widthOf(of) !== preferences.value[of]) keep(widthOf(of));
  };
  const to: Record<string, () => number> = {
    ArrowLeft: () => inside(widthOf(of) - step), ArrowRight: () => inside(widthOf(of) + step),
    Home: () => bounds(of).least, End: () => bounds(of).most, Enter: () => 0,
  };
  return (
    <div
      class={`border border-${of}`} role="separator" tabIndex={0} aria-orientation="vertical" aria-label={t(of === "side" ? "widthOfFolders" : "widthOfList")} title={t("widthHint")}
      aria-valuenow={now.value.width} aria-valuemin={now.value.least} aria-valuemax={now.value.most}
      onPointerDown={(e) => {
        if (e.button !== 0) return;
        e.preventDefault(); // no text is selected meanwhile
        e.currentTarget.focus();
        e.currentTarget.setPointerCapture(e.pointerId);
        from.current = { x: e.clientX, width: widthOf(of) };
      }}
      onPointerMove={(e) => {
        // A click that does not move is none of dragging: a double click resets.
        if (from.current && e.clientX !== from.current.x) setWidth(of, inside(from.current.width + e.clientX - from.current.x));
      }}
      onPointerUp={(e) => (e.clientX === from.current?.x ? (from.current = null) : end())}
      onLostPointerCapture={end}
      onDblClick={() => keep(0)}
      onKeyDown={(e) => {
        const width = to[e.key];
        if (!width || e.ctrlKey || e.metaKey || e.altKey) return;
        e.preventDefault();
        keep(width());
      }}
    />
  );
}
