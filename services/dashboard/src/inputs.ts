import { DEVICE_TOKEN } from '@carillon/core/limits';
import { z } from 'zod';

/** The latest time that a Date can hold, in milliseconds since 1970. */
const LATEST_TIME = 8_640_000_000_000_000;

/** A device token in a path. */
export const deviceToken = z.string().regex(DEVICE_TOKEN, 'This is not a device token.');

/** Unix milliseconds, parsed into a date. */
export const time = z.coerce
  .number()
  .int()
  .min(0)
  .max(LATEST_TIME)
  .transform((ms) => new Date(ms));

/** Interval of a list in unix milliseconds, parsed into dates. */
export const interval = { from: time.optional(), to: time.optional() };
