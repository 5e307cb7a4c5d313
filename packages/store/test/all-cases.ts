import { CONSOLE_WRITE_CASES } from './console-write-cases.ts';
import type { Call, Case, Cases } from './document-fixtures.ts';
import { PUSH_WRITE_CASES } from './push-write-cases.ts';
import { REDRIVE_WRITE_CASES } from './redrive-write-cases.ts';
import { REGISTRATION_WRITE_CASES } from './registration-write-cases.ts';
import { WEBHOOK_WRITE_CASES } from './webhook-write-cases.ts';

/** Cases of the functions that write. */
export const ALL_WRITES: Cases = {
  ...REGISTRATION_WRITE_CASES,
  ...PUSH_WRITE_CASES,
  ...REDRIVE_WRITE_CASES,
  ...CONSOLE_WRITE_CASES,
  ...WEBHOOK_WRITE_CASES,
};

/** Lists the cases of a function, each with its name if there are several. */
export function listCases(cases: Cases[string]): [variant: string, one: Case][] {
  const toCase = (one: Call | Case): Case =>
    typeof one === 'function' ? { given: async () => undefined, call: one } : one;
  if (typeof cases === 'function' || isCase(cases)) return [['', toCase(cases)]];
  return Object.entries(cases).map(([variant, one]) => [` ${variant}`, toCase(one)]);
}

const isCase = (cases: object): cases is Case => 'call' in cases;
