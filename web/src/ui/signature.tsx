// The signature of an identity, with formatting.

import { useEffect, useRef } from "preact/hooks";
import { t } from "../text";
import { edit, type CommandName, type Editor } from "./editor";
import { safeHTML } from "./html";
import { Icon } from "./icons";

/** An editor for a signature; changed is told its markup and its plain text. */
export function Signature({ html, label, changed }: { html: string; label: string; changed: (html: string, text: string) => void }) {
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | undefined>(undefined);
  useEffect(() => {
    const e = edit(place.current!, safeHTML(html, false).html, label, () => changed(e.html(), e.text()), () => undefined);
    editor.current = e;
    return () => e.destroy();
  }, []);
  const tool = (name: CommandName & ("bold" | "italic" | "underline"), text: string) => (
    <button type="button" class="tool" aria-label={text} title={text} onMouseDown={(e) => e.preventDefault()} onClick={() => editor.current?.run(name)}><Icon name={name} /></button>
  );
  return (
    <div class="signature">
      <div class="editor" ref={place} />
      <div>{tool("bold", t("bold"))}{tool("italic", t("italic"))}{tool("underline", t("underline"))}</div>
    </div>
  );
}
