import type { StackOptions } from './env.ts';

/** The stacks that test files share, started by the process that starts them all. */
export type LentKind = 'calm' | 'killable';

interface Lent {
  count: number;
  options: StackOptions;
  /** Names the folders of the stacks in the environment, with a colon between them. */
  variable: string;
}

/** No limits per address, for all tests have the same one. */
const UNLIMITED = { CARILLON_ADDRESS_LIMITS: 'off' };

export const LENT: Record<LentKind, Lent> = {
  /** One for all files at once, which break nothing. */
  calm: {
    count: 1,
    options: { apis: 2, deliveryWorkers: 2, env: UNLIMITED },
    variable: 'CARILLON_TEST_CALM_STACK',
  },
  /** For one file at a time each: its processes may be killed or frozen. */
  killable: {
    count: 2,
    options: { apis: 2, deliveryWorkers: 2, schedulers: 2, deviceGateways: 2, env: UNLIMITED },
    variable: 'CARILLON_TEST_KILLABLE_STACKS',
  },
};

/** Folder in the folder of a killable stack in which a test failed: no further file gets it, and it is kept. */
export const SPOILT = 'spoilt';
