import { lazy } from "./lazy";
import { sheet } from "../state/screen";
import { t } from "../text";
import { Ask, Frame } from "./above";

const Deleted = lazy(() => import("./later").then((m) => m.Deleted));
const Help = lazy(() => import("./palette").then((m) => m.Help));
const Palette = lazy(() => import("./palette").then((m) => m.Palette));
const Preview = lazy(() => import("./preview").then((m) => m.Preview));
const Scheduled = lazy(() => import("./later").then((m) => m.Scheduled));
const Redirect = lazy(() => import("./redirect").then((m) => m.Redirect));
const RuleFrom = lazy(() => import("./rulebook").then((m) => m.RuleFrom));
const Settings = lazy(() => import("./settings").then((m) => m.Settings));
const Source = lazy(() => import("./source").then((m) => m.Source));

export function Sheets() {
  const s = sheet.value;
  if (!s) return null;
  switch (s.kind) {
    case "settings": return <Frame title={t("settings")}><Settings /></Frame>;
    case "help": return <Help />;
    case "palette": return <Palette key={s.mode} mode={s.mode} />;
    case "source": return <Source id={s.id} />;
    case "ask": return <Ask s={s} />;
    case "preview": return <Preview key={`${s.of} ${s.at}`} of={s.of} at={s.at} />;
    case "redirect": return <Redirect id={s.id} />;
    case "rule": return <RuleFrom key={s.id} id={s.id} />;
    case "scheduled": return <Scheduled />;
    case "deleted": return <Deleted />;
  }
}
