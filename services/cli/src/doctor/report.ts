import { reasonOf } from '../failure.ts';

/** One thing that the doctor looked at. */
export interface Finding {
  check: string;
  ok: boolean;
  detail: string;
}

/** Makes a finding of a look: its words when it went well, the reason when it threw. */
export async function look(check: string, work: () => Promise<string>): Promise<Finding> {
  try {
    return { check, ok: true, detail: await work() };
  } catch (error) {
    return { check, ok: false, detail: reasonOf(error) };
  }
}
