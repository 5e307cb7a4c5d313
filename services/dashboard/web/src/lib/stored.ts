/** Reads what this browser has stored; undefined if there is nothing or storage is blocked. */
export function readStored(name: string): string | undefined {
  try {
    return localStorage.getItem(`carillon:${name}`) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Stores a text in this browser; without effect if storage is blocked or full. */
export function writeStored(name: string, text: string): void {
  try {
    localStorage.setItem(`carillon:${name}`, text);
  } catch {
    // Stored values are a convenience; the page works without them.
  }
}
