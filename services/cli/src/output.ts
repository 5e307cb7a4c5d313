/** Writes results of commands: JSON for scripts, lines for people. */
export type Output = ReturnType<typeof createOutput>;

/**
 * Creates the output of one run.
 *
 * @param write takes text for standard output
 */
export function createOutput(write: (text: string) => void, isJson: () => boolean) {
  /** Writes a result that is JSON text already, unchanged; without --json writes the lines. */
  function showText(json: string, lines: readonly string[]): void {
    for (const line of isJson() ? [json] : lines) write(`${line}\n`);
  }
  return {
    isJson,
    showText,
    /** Writes the value with --json, otherwise the lines. */
    show: (value: unknown, lines: readonly string[]) => showText(JSON.stringify(value), lines),
  };
}

/** Formats a unix time in seconds, as the API returns it. */
export function formatTimestamp(unixSeconds: number): string {
  return new Date(unixSeconds * 1_000).toISOString().replace('.000Z', 'Z');
}

/** Formats a number with its noun: `1 device`, `2 devices`. */
export function formatCount(n: number, singular: string, plural = `${singular}s`): string {
  return `${n} ${n === 1 ? singular : plural}`;
}
