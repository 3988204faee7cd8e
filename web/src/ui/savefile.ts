// A file that the page made, as a download.

export function saveFile(text: string, type: string, name: string): void {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([text], { type }));
  a.download = name.replace(/[\\/:*?"<>|\u0000-\u001f]/gu, "_");
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
}
