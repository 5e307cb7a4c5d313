/** Where answers go: JSON for scripts, lines for people. */
export interface Output {
  isJson(): boolean;
  /** A command's answer: the value with --json, else the lines. */
  show(value: unknown, lines: readonly string[]): void;
  /** The same for an answer that is JSON text already, which goes out unchanged. */
  showText(json: string, lines: readonly string[]): void;
}

/** Makes the output of one run; `write` takes text for standard output. */
export function createOutput(write: (text: string) => void, isJson: () => boolean): Output {
  const showText: Output['showText'] = (json, lines) => {
    for (const line of isJson() ? [json] : lines) write(`${line}\n`);
  };
  return { isJson, showText, show: (value, lines) => showText(JSON.stringify(value), lines) };
}

/** A unix time in seconds, as the API gives it, for people. */
export function momentOf(unixSeconds: number): string {
  return new Date(unixSeconds * 1_000).toISOString().replace('.000Z', 'Z');
}

/** `1 device`, `2 devices`. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}
