import cliProgress from 'cli-progress';
import type { Output } from './output.ts';

/** What a progress bar needs of a command. */
export interface ProgressContext {
  output: Pick<Output, 'isJson'>;
  /** Standard error. The bar is drawn where it is a terminal. */
  terminal: NodeJS.WritableStream;
}

/** Progress that is shown while a command runs. */
export interface Progress {
  /** Shows how much is done, in the unit of the total. */
  update(done: number): void;
  /** Removes the bar. Write nothing to standard error before; call it also after a failure, in `finally`. */
  stop(): void;
}

const NOTHING: Progress = { update: () => undefined, stop: () => undefined };

/**
 * Shows a bar with the rate and the remaining time; nothing with --json, and where standard error is no terminal.
 *
 * @param options.total undefined if it is unknown: then only the count and the rate are shown
 * @param options.noun plural of the unit, such as `devices`
 * @param options.done what an earlier run has done, which the rate leaves out
 */
export function startProgress(
  { output, terminal }: ProgressContext,
  { total, noun, done: before = 0 }: { total: number | undefined; noun: string; done?: number },
): Progress {
  if (output.isJson()) return NOTHING;
  const format =
    total === undefined
      ? `{value} ${noun} | {rate}/s`
      : `{bar} {percentage} % | {value} of {total} ${noun} | {rate}/s | {eta_formatted} left`;
  const bar = new cliProgress.SingleBar({
    ...{ stream: terminal, format },
    // It is no number until the first update.
    formatTime: (seconds, ...rest) =>
      Number.isFinite(seconds) ? cliProgress.Format.TimeFormat(seconds, ...rest) : '?',
    formatValue: (value, _options, type) => (type === 'percentage' ? `${value}` : round(value)),
    clearOnComplete: true,
  });
  const startedAt = performance.now();
  bar.start(total ?? 0, before, { rate: 0 });
  return {
    update(done) {
      const seconds = (performance.now() - startedAt) / 1_000;
      bar.update(done, { rate: round((done - before) / Math.max(seconds, 1)) });
    },
    stop: () => bar.stop(),
  };
}

/** Formats a number with one decimal if it is small. */
function round(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: value < 100 ? 1 : 0 });
}
