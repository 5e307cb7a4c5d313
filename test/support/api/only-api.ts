import type { StackOptions } from '../stack/env.ts';

/** A stack of which only the API runs: nothing is delivered, and it starts quicker. */
export const ONLY_API: StackOptions = {
  deliveryWorkers: 0,
  schedulers: 0,
  deviceGateways: 0,
  sandbox: false,
};
