import { readFileSync } from 'node:fs';

/** A fault and the tests that apply it. */
export interface PlannedFault {
  fault: string;
  /** Test files; a `main.ts` is a program that reports by its exit code. Several faults may share a file. */
  files: readonly string[];
  /** Why no file applies the fault. */
  reason?: string;
}

const PAGE = new URL('../../docs/guarantees.md', import.meta.url);
const ROW = /^\| \d+ \| (.*) \| (.*) \|$/gm;

/**
 * The faults under which the guarantees are tested, in the order of their numbers: the rows of the table in
 * docs/guarantees.md. `npm run faults` runs their tests.
 */
export const FAULT_PLAN: readonly PlannedFault[] = [
  ...readFileSync(PAGE, 'utf8').matchAll(ROW),
].map(([, fault = '', tests = '']) => {
  const files = [...tests.matchAll(/`([^`]+)`/g)].map(([, file = '']) => file);
  return { fault, files, ...(files.length === 0 && { reason: tests }) };
});
