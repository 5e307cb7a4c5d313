import { type ChildProcess, spawn } from 'node:child_process';
import type { Part } from './plan.ts';

/** Milliseconds after which a program that ignores SIGTERM gets SIGKILL. */
const KILL_AFTER_MS = 60_000;
/** A run with more failed files than this has no bad luck but a fault. */
const MAX_RERUN_FILES = 3;

/** What a program printed, and how it ended. */
export interface Outcome {
  output: string;
  isOk: boolean;
}

/** Numbers of tests, and what a user wants to know of them at the end. */
export interface Result {
  passed: number;
  failed: number;
  /** Files and titles of failed tests. */
  failures: string[];
  /** Files that passed only in a second run. */
  flaky: string[];
  /** Files that this machine can't run, with the reason. */
  leftOut: string[];
}

const running = new Set<ChildProcess>();

/** Ends the programs of {@link runProgram} when this one is ended. @param onStop is called first */
export function stopWithSignals(onStop: () => void): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      onStop();
      for (const child of running) signalGroup(child, 'SIGTERM');
    });
  }
}

/** Signals a program and those that it has started: some wait for theirs and pass no signal on. */
function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // All of them have ended.
  }
}

/** Runs a program, which gets SIGTERM after so many milliseconds. @param isShown its output is printed at once */
export function runProgram(
  [program = '', ...args]: readonly string[],
  { root, timeoutMs, isShown }: { root: string; timeoutMs: number; isShown: boolean },
): Promise<Outcome> {
  const child = spawn(program, args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  running.add(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (isShown) process.stdout.write(text);
    });
  }
  const timers = Number.isFinite(timeoutMs)
    ? [
        setTimeout(() => signalGroup(child, 'SIGTERM'), timeoutMs),
        setTimeout(() => signalGroup(child, 'SIGKILL'), timeoutMs + KILL_AFTER_MS),
      ]
    : [];
  return new Promise((resolve) => {
    const end = (isOk: boolean) => {
      for (const timer of timers) clearTimeout(timer);
      running.delete(child);
      resolve({ output, isOk });
    };
    child.once('error', (error) => {
      output += `${error.message}\n`;
      end(false);
    });
    child.once('close', (code) => end(code === 0));
  });
}

/** Runs `npm test` with arguments. */
type RunTests = (title: string, args: readonly string[]) => Promise<Outcome>;

/** Returns the arguments of `npm test` that choose files. */
export function select(files: readonly string[]): string[] {
  return ['--runTestsByPath', ...files];
}

/**
 * Runs a part of the tests. A few failed files are run once more by themselves, since bounds in seconds depend on the
 * machine.
 */
export async function runPart(
  { title, files }: Pick<Part, 'title' | 'files'>,
  args: readonly string[],
  runTests: RunTests,
): Promise<Result> {
  const first = await runTests(title, args);
  const result = readResult(title, first, files);
  const failedFiles = listFailedFiles(first);
  if (failedFiles.length === 0 || failedFiles.length > MAX_RERUN_FILES) return result;
  const second = `once more: ${failedFiles.join(', ')}`;
  const outcome = await runTests(second, select(failedFiles));
  const again = readResult(second, outcome, failedFiles);
  const failedAgain = listFailedFiles(outcome);
  if (again.failed > 0) {
    const isWhole = failedAgain.length > 0;
    const flaky = isWhole ? failedFiles.filter((path) => !failedAgain.includes(path)) : [];
    const failures = [...new Set([...result.failures, ...again.failures])];
    return { ...result, failures, flaky };
  }
  const passed = result.passed + result.failed;
  return { ...result, passed, failed: 0, failures: [], flaky: failedFiles };
}

function listFailedFiles({ output }: Outcome): string[] {
  return [...output.matchAll(/^failed file: (.+)$/gm)].map(([, path = '']) => path);
}

/** Reads the numbers that a run of Jest has printed last, and which of its files it has left out. */
export function readResult(
  title: string,
  { output, isOk }: Outcome,
  files: readonly string[],
): Result {
  const [passed = 0, failed = 0] =
    [...output.matchAll(/^(\d+) passed, (\d+) failed$/gm)].at(-1)?.slice(1).map(Number) ?? [];
  const reasons = readLeftOut(output, files);
  const leftOut = [...reasons].map(([path, list]) => `${path} (${list.join('; ')})`);
  const isEmpty = passed + failed === 0;
  if (isEmpty && reasons.size === files.length) {
    return { passed, failed, failures: [], flaky: [], leftOut };
  }
  // A run that broke off, or that ran nothing, is a failure of its own.
  const isBroken = failed === 0 && (!isOk || isEmpty);
  const named = [...output.matchAll(/^(failed file: .+| +● .+)$/gm)].map(([line]) => line.trim());
  const failures = isBroken ? [`${title}: ended without a failed test`] : [...new Set(named)];
  return { passed, failed: isBroken ? 1 : failed, failures, flaky: [], leftOut };
}

/** Reads for which reasons files were left out; test/support/jest/left-out.mjs prints them. */
function readLeftOut(output: string, files: readonly string[]): Map<string, string[]> {
  const reasons = new Map<string, string[]>();
  for (const [, names = '', reason = ''] of output.matchAll(/^Left out: (.+?) \((.+)\)\.$/gm)) {
    const isNamed = (path: string) =>
      names.split(', ').some((name) => `/${path}`.includes(`/${name}`));
    for (const path of files.filter(isNamed)) {
      reasons.set(path, [...new Set([...(reasons.get(path) ?? []), reason])]);
    }
  }
  return reasons;
}
